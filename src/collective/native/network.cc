#include <algorithm>
#include <bit>
#include <memory>

#include "base/error.h"
#include "collective/rank_group.h"
#include "collective/reduction.h"

namespace trireme::collective::network {
namespace {

constexpr std::size_t kBlockBytes = 256u << 10;  // of each peer's part, summed at a time

/// Returns uninitialised memory.
std::unique_ptr<std::byte[]> scratch(std::size_t bytes) { return std::make_unique_for_overwrite<std::byte[]>(bytes); }

std::size_t element_of(const Operation& operation) {
  return size_of(operation.in.count > 0 ? operation.in.dtype : operation.out.dtype);
}

/// Returns the position of a rank in the group.
std::size_t place_of(const RankGroup& group, Rank rank) {
  const auto found = std::ranges::find(group.ranks, rank);
  TRIREME_CHECK(found != group.ranks.end(), "rank {} is not in the group", rank);
  return static_cast<std::size_t>(found - group.ranks.begin());
}

/// Sums `own` and the parts that the others send us, block by block, into `out` (which may be `own`); sends the others
/// their parts. `their_part(i)` is the part of our input that member i sums.
template <typename TheirPart>
void reduce_parts(const RankGroup& group, const Operation& operation, const std::byte* own, std::size_t own_bytes,
                  std::byte* out, TheirPart their_part) {
  const std::size_t element = element_of(operation);
  const std::size_t block = std::min(kBlockBytes / element * element, own_bytes);
  const auto memory = scratch((group.size() - 1) * block);
  std::vector<Contribution> parts(group.size());
  std::vector<Transfer> giving;
  for (std::size_t i = 0; i < group.size(); ++i) {
    parts[i].lanes = group.lanes[i];
    if (i != group.self) giving.push_back(outgoing(group.ranks[i], their_part(i)));
  }
  std::vector<Transfer> taking;
  for (std::size_t begin = 0; begin < own_bytes; begin += block) {
    const std::size_t size = std::min(block, own_bytes - begin);
    taking.clear();
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (i == group.self) {
        parts[i].values = own + begin;
      } else {
        std::byte* place = memory.get() + taking.size() * block;
        parts[i].values = place;
        taking.push_back(incoming(group.ranks[i], {place, size}));
      }
    }
    group.mesh.exchange(taking, group.context, giving);
    collective::reduce(operation.in.dtype, operation.reduce.op, group.all_lanes(), parts, size / element, out + begin,
                       group.all_lanes());
  }
  group.mesh.exchange(giving, group.context);
}

/// Sends `own` of each rank to all; `place(i)` is where that of member i goes.
template <typename Place>
void spread(const RankGroup& group, Bytes own, Place place) {
  std::vector<Transfer> transfers;
  for (std::size_t step = 1; step < group.size();
       ++step) {  // each starts with its neighbour, so that no rank is swamped
    const std::size_t to = (group.self + step) % group.size();
    const std::size_t from = (group.self + group.size() - step) % group.size();
    transfers.push_back(outgoing(group.ranks[to], own));
    transfers.push_back(incoming(group.ranks[from], place(from)));
  }
  group.mesh.exchange(transfers, group.context);
}

/// Computes out = lower op higher, where one of them is ours in `out` and the other came from a peer.
void merge(const Operation& operation, std::byte* own, const std::byte* theirs, bool own_is_lower, std::size_t count) {
  const Contribution parts[] = {{{0, 1}, own_is_lower ? own : theirs}, {{1, 1}, own_is_lower ? theirs : own}};
  const ReduceOp op = operation.reduce.op == ReduceOp::kAverage ? ReduceOp::kSum : operation.reduce.op;
  collective::reduce(operation.in.dtype, op, 2, parts, count, own, 1);
}

void finish_average(const RankGroup& group, const Operation& operation, std::byte* values, std::size_t count) {
  if (operation.reduce.op == ReduceOp::kAverage) divide(operation.in.dtype, values, count, group.all_lanes());
}

}  // namespace

void all_reduce_direct(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const auto slice = [&](std::size_t i) { return part_of(operation.in.count, element, group.size(), i); };
  const auto in_slice = [&](std::size_t i) {
    return Bytes(operation.in.data + slice(i).first * element, slice(i).count * element);
  };
  const auto out_slice = [&](std::size_t i) {
    return MutableBytes(operation.out.data + slice(i).first * element, slice(i).count * element);
  };
  const MutableBytes own = out_slice(group.self);
  reduce_parts(group, operation, in_slice(group.self).data(), own.size(), own.data(), in_slice);
  spread(group, own, out_slice);
}

// Up the summation tree: the right child of each node sends its partial sum to the left one; then back down.
void all_reduce_tree(const RankGroup& group, const Operation& operation) {
  copy_bytes(operation.out.data, operation.in.data, operation.in.size_bytes());
  const auto memory = scratch(operation.out.size_bytes());
  struct Edge {
    std::size_t left, right;
  };
  std::vector<Edge> path;  // the edges at this rank, from the leaves up
  LaneRange node{0, static_cast<Lane>(group.size())};
  while (node.count > 1) {
    const Lane left = left_lanes(node.count);
    const Edge edge{node.first, node.first + left};
    if (edge.left == group.self || edge.right == group.self) path.push_back(edge);
    node = group.self < edge.right ? LaneRange{node.first, left} : LaneRange{node.first + left, node.count - left};
  }
  std::ranges::reverse(path);
  for (const Edge& edge : path) {
    if (edge.right == group.self) {
      Transfer up = outgoing(group.ranks[edge.left], operation.out.bytes());
      group.mesh.exchange({&up, 1}, group.context);
    } else {
      Transfer up = incoming(group.ranks[edge.right], {memory.get(), operation.out.size_bytes()});
      group.mesh.exchange({&up, 1}, group.context);
      merge(operation, operation.out.data, memory.get(), true, operation.out.count);
    }
  }
  if (group.self == 0) finish_average(group, operation, operation.out.data, operation.out.count);
  std::ranges::reverse(path);
  for (const Edge& edge : path) {
    Transfer down = edge.left == group.self ? outgoing(group.ranks[edge.right], operation.out.bytes())
                                            : incoming(group.ranks[edge.left], operation.out.bytes());
    group.mesh.exchange({&down, 1}, group.context);
  }
}

// Thakur, Rabenseifner, Gropp (2005), section 4.3: halve the data with ever more distant partners, then double it
// again. Starting with the neighbour keeps the order of summation that of the tree.
void all_reduce_halving_doubling(const RankGroup& group, const Operation& operation) {
  TRIREME_CHECK(std::has_single_bit(group.size()), "{} ranks", group.size());
  copy_bytes(operation.out.data, operation.in.data, operation.in.size_bytes());
  const std::size_t element = element_of(operation);
  const auto memory = scratch((operation.out.size_bytes() + element) / 2 + 64);
  struct Half {
    std::size_t partner;
    Part kept, given;
  };
  std::vector<Half> halves;
  Part range{0, operation.out.count};
  for (std::size_t distance = 1; distance < group.size(); distance *= 2) {
    const std::size_t partner = group.self ^ distance;
    const bool lower = group.self < partner;
    const Part first{range.first, range.count / 2};
    const Part second{range.first + first.count, range.count - first.count};
    const Half half{partner, lower ? first : second, lower ? second : first};
    std::byte* kept = operation.out.data + half.kept.first * element;
    Transfer both[] = {
        outgoing(group.ranks[partner], {operation.out.data + half.given.first * element, half.given.count * element}),
        incoming(group.ranks[partner], {memory.get(), half.kept.count * element})};
    group.mesh.exchange(both, group.context);
    merge(operation, kept, memory.get(), lower, half.kept.count);
    halves.push_back(half);
    range = half.kept;
  }
  finish_average(group, operation, operation.out.data + range.first * element, range.count);
  for (auto half = halves.rbegin(); half != halves.rend(); ++half) {
    Transfer both[] = {outgoing(group.ranks[half->partner],
                                {operation.out.data + half->kept.first * element, half->kept.count * element}),
                       incoming(group.ranks[half->partner],
                                {operation.out.data + half->given.first * element, half->given.count * element})};
    group.mesh.exchange(both, group.context);
  }
}

// Patarasuk & Yuan (2009): n - 1 steps in which each rank adds to the slice that passes by, n - 1 in which the sums do.
void all_reduce_ring(const RankGroup& group, const Operation& operation) {
  copy_bytes(operation.out.data, operation.in.data, operation.in.size_bytes());
  const std::size_t n = group.size();
  const std::size_t element = element_of(operation);
  const Rank right = group.ranks[(group.self + 1) % n];
  const Rank left = group.ranks[(group.self + n - 1) % n];
  const auto slice = [&](std::size_t i) { return part_of(operation.out.count, element, n, i % n); };
  const auto bytes = [&](std::size_t i) {
    return MutableBytes(operation.out.data + slice(i).first * element, slice(i).count * element);
  };
  std::size_t largest = 0;
  for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, slice(i).count * element);
  const auto memory = scratch(largest);
  for (std::size_t step = 0; step + 1 < n; ++step) {
    const std::size_t passing = group.self + n - step - 1;
    Transfer both[] = {outgoing(right, bytes(passing + 1)), incoming(left, {memory.get(), bytes(passing).size()})};
    group.mesh.exchange(both, group.context);
    combine(operation.in.dtype, operation.reduce.op, bytes(passing).data(), memory.get(), slice(passing).count);
  }
  const std::size_t mine = group.self + 1;
  finish_average(group, operation, bytes(mine).data(), slice(mine).count);
  for (std::size_t step = 0; step + 1 < n; ++step) {
    const std::size_t passing = mine + n - step;
    Transfer both[] = {outgoing(right, bytes(passing)), incoming(left, bytes(passing + n - 1))};
    group.mesh.exchange(both, group.context);
  }
}

void reduce_scatter(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::vector<std::size_t> at = positions(operation.in_counts);
  const auto part = [&](std::size_t i) {
    return Bytes(operation.in.data + at[i] * element, operation.in_counts[i] * element);
  };
  reduce_parts(group, operation, part(group.self).data(), operation.out.size_bytes(), operation.out.data, part);
}

// Each rank sums a slice, and the root collects them.
void reduce(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const auto slice = [&](std::size_t i) { return part_of(operation.in.count, element, group.size(), i); };
  const auto in_slice = [&](std::size_t i) {
    return Bytes(operation.in.data + slice(i).first * element, slice(i).count * element);
  };
  const std::size_t root = place_of(group, operation.root);
  const std::size_t own_bytes = slice(group.self).count * element;
  std::unique_ptr<std::byte[]> memory;
  std::byte* sums = nullptr;
  if (group.self == root) {
    sums = operation.out.data + slice(group.self).first * element;
  } else {
    memory = scratch(own_bytes);
    sums = memory.get();
  }
  reduce_parts(group, operation, in_slice(group.self).data(), own_bytes, sums, in_slice);
  std::vector<Transfer> transfers;
  if (group.self != root) {
    transfers.push_back(outgoing(operation.root, {sums, own_bytes}));
  } else {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (i == root) continue;
      transfers.push_back(
          incoming(group.ranks[i], {operation.out.data + slice(i).first * element, slice(i).count * element}));
    }
  }
  group.mesh.exchange(transfers, group.context);
}

void all_gather(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::vector<std::size_t> at = positions(operation.out_counts);
  const auto part = [&](std::size_t i) {
    return MutableBytes(operation.out.data + at[i] * element, operation.out_counts[i] * element);
  };
  copy_bytes(part(group.self).data(), operation.in.data, operation.in.size_bytes());
  spread(group, operation.in.bytes(), part);
}

// The root gives each rank a slice, then each rank gives its slice to all: the root sends the data once, not n times
// (van de Geijn's algorithm).
void broadcast(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::size_t root = place_of(group, operation.root);
  const auto slice = [&](std::size_t i) {
    const Part part = part_of(operation.out.count, element, group.size() - 1, i < root ? i : i - 1);
    return MutableBytes(operation.out.data + part.first * element, part.count * element);
  };
  std::vector<Transfer> transfers;
  if (group.self == root) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (i != root) transfers.push_back(outgoing(group.ranks[i], slice(i)));
    }
    group.mesh.exchange(transfers, group.context);
    return;
  }
  // One after the other: a slice cannot be passed on before it has arrived.
  Transfer own = incoming(operation.root, slice(group.self));
  group.mesh.exchange({&own, 1}, group.context);
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == root || i == group.self) continue;
    transfers.push_back(outgoing(group.ranks[i], slice(group.self)));
    transfers.push_back(incoming(group.ranks[i], slice(i)));
  }
  group.mesh.exchange(transfers, group.context);
}

void gather(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::vector<std::size_t> at = positions(operation.out_counts);
  std::vector<Transfer> transfers;
  if (group.ranks[group.self] != operation.root) {
    transfers.push_back(outgoing(operation.root, operation.in.bytes()));
  } else {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const MutableBytes part(operation.out.data + at[i] * element, operation.out_counts[i] * element);
      if (i == group.self) {
        copy_bytes(part.data(), operation.in.data, part.size());
      } else {
        transfers.push_back(incoming(group.ranks[i], part));
      }
    }
  }
  group.mesh.exchange(transfers, group.context);
}

void scatter(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::vector<std::size_t> at = positions(operation.in_counts);
  std::vector<Transfer> transfers;
  if (group.ranks[group.self] != operation.root) {
    transfers.push_back(incoming(operation.root, operation.out.bytes()));
  } else {
    for (std::size_t i = 0; i < group.size(); ++i) {
      const Bytes part(operation.in.data + at[i] * element, operation.in_counts[i] * element);
      if (i == group.self) {
        copy_bytes(operation.out.data, part.data(), part.size());
      } else {
        transfers.push_back(outgoing(group.ranks[i], part));
      }
    }
  }
  group.mesh.exchange(transfers, group.context);
}

void all_to_all(const RankGroup& group, const Operation& operation) {
  const std::size_t element = element_of(operation);
  const std::vector<std::size_t> from = positions(operation.in_counts);
  const std::vector<std::size_t> to = positions(operation.out_counts);
  const bool in_place = operation.in.data == operation.out.data;
  std::unique_ptr<std::byte[]> copy;  // received data must not overwrite what is still to be sent
  const std::byte* source = operation.in.data;
  if (in_place) {
    copy = scratch(operation.in.size_bytes());
    copy_bytes(copy.get(), source, operation.in.size_bytes());
    source = copy.get();
  }
  copy_bytes(operation.out.data + to[group.self] * element, source + from[group.self] * element,
             operation.in_counts[group.self] * element);
  std::vector<Transfer> transfers;
  for (std::size_t step = 1; step < group.size(); ++step) {
    const std::size_t target = (group.self + step) % group.size();
    const std::size_t origin = (group.self + group.size() - step) % group.size();
    transfers.push_back(
        outgoing(group.ranks[target], {source + from[target] * element, operation.in_counts[target] * element}));
    transfers.push_back(incoming(group.ranks[origin],
                                 {operation.out.data + to[origin] * element, operation.out_counts[origin] * element}));
  }
  group.mesh.exchange(transfers, group.context);
}

}  // namespace trireme::collective::network
