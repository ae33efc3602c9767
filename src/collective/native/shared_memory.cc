#include <algorithm>
#include <cstring>

#include <boost/container/small_vector.hpp>

#include "base/error.h"
#include "collective/rank_group.h"
#include "collective/reduction.h"

namespace trireme::collective {

Part part_of(std::size_t count, std::size_t element_bytes, std::size_t parts, std::size_t i) {
  const std::size_t line = std::max<std::size_t>(1, 64 / element_bytes);
  const std::size_t lines = (count + line - 1) / line;
  const std::size_t first = std::min(count, lines * i / parts * line);
  const std::size_t end = std::min(count, lines * (i + 1) / parts * line);
  return {first, end - first};
}

std::vector<std::size_t> positions(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> result{0};
  for (const std::size_t count : counts) result.push_back(result.back() + count);
  return result;
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, bytes);
}

namespace shared_memory {
namespace {

/// How much each rank shows in a round: what all ranks show together fits into their second-level caches.
constexpr std::size_t kBlockBytes = 128u << 10;
static_assert(kBlockBytes <= LocalGroup::kStageBytes);

void count_shared(Mesh& mesh, std::size_t bytes) { mesh.shared_bytes().fetch_add(bytes, std::memory_order_relaxed); }

/// Reduces what the ranks of `mesh` (or of this host) show.
class Reducer {
 public:
  Reducer(const Operation& operation, std::span<const LaneRange> lanes)
      : dtype_(operation.in.dtype), op_(operation.reduce.op), lanes_(lanes.back().end()), parts_(lanes.size()) {
    for (std::size_t i = 0; i < lanes.size(); ++i) parts_[i].lanes = lanes[i];
  }

  /// `values(i)` is the address of rank i's elements.
  template <typename Values>
  void operator()(Values values, std::size_t count, std::byte* out) {
    for (std::uint32_t i = 0; i < parts_.size(); ++i) parts_[i].values = values(i);
    collective::reduce(dtype_, op_, lanes_, {parts_.data(), parts_.size()}, count, out, lanes_);
  }

 private:
  DType dtype_;
  ReduceOp op_;
  Lane lanes_;
  boost::container::small_vector<Contribution, 8> parts_;
};

/// Passes over `bytes` in blocks: each rank shows a block (`show(begin, size, stage)`), all wait for each other, and
/// each uses what the others show (`use(begin, size, round)`).
template <typename Show, typename Use>
void pass(Mesh& mesh, const OpContext& context, std::size_t bytes, std::size_t block_bytes, Show show, Use use) {
  LocalGroup& group = *mesh.local();
  for (std::size_t begin = 0; begin < bytes; begin += block_bytes) {
    const std::size_t size = std::min(block_bytes, bytes - begin);
    show(begin, size, group.stage(group.index(), group.next_round()));
    use(begin, size, mesh.local_barrier(context));
  }
}

/// Returns how much of [begin, begin + size) is below `end`.
std::size_t below(std::size_t begin, std::size_t size, std::size_t end) {
  return begin >= end ? 0 : std::min(size, end - begin);
}

/// Each rank shows its input; those with `reads` copy the inputs of all to their output.
void collect(Mesh& mesh, const Operation& operation, const OpContext& context, bool reads) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.count > 0 ? operation.in.dtype : operation.out.dtype);
  const std::vector<std::size_t> at = positions(operation.out_counts);
  const std::size_t longest = *std::ranges::max_element(operation.out_counts) * element;
  const std::size_t own_bytes = operation.in.size_bytes();
  pass(
      mesh, context, longest, LocalGroup::kStageBytes,
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        copy_bytes(stage, operation.in.data + begin, below(begin, size, own_bytes));
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        if (!reads) return;
        for (std::uint32_t i = 0; i < group.count(); ++i) {
          const std::size_t bytes = below(begin, size, operation.out_counts[i] * element);
          std::byte* to = operation.out.data + at[i] * element + begin;
          copy_bytes(to, i == group.index() ? operation.in.data + begin : group.stage(i, round), bytes);
          if (i != group.index()) count_shared(mesh, bytes);
        }
      });
}

/// Shows a block of the part for each rank, side by side: the stage is divided into as many cells.
class Cells {
 public:
  Cells(std::uint32_t ranks, std::size_t element) {
    bytes_ = LocalGroup::kStageBytes / ranks / 64 * 64;
    bytes_ = bytes_ / element * element;
  }
  std::size_t bytes() const { return bytes_; }
  std::byte* of(std::byte* stage, std::uint32_t rank) const { return stage + rank * bytes_; }

 private:
  std::size_t bytes_;
};

}  // namespace

void all_reduce_one_shot(Mesh& mesh, const Operation& operation, std::uint32_t round) {
  LocalGroup& group = *mesh.local();
  Reducer reducer(operation, mesh.lanes(operation));
  reducer([&](std::uint32_t i) { return i == group.index() ? operation.in.data : group.stage(i, round); },
          operation.in.count, operation.out.data);
  count_shared(mesh, operation.in.size_bytes() * (group.count() - 1));
}

void all_reduce_direct(Mesh& mesh, const Operation& operation, const OpContext& context) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.dtype);
  Reducer reducer(operation, mesh.lanes(operation));
  const auto slice_of = [&](std::size_t size, std::uint32_t i) {
    const Part slice = part_of(size / element, element, group.count(), i);
    return Part{slice.first * element, slice.count * element};
  };
  Part last;
  std::uint32_t last_round = 0;
  // Takes the sums of the previous block: all slices of them are ready when all ranks have reached a later round.
  const auto take_sums = [&] {
    for (std::uint32_t i = 0; i < group.count(); ++i) {
      const Part slice = slice_of(last.count, i);
      if (i == group.index() || slice.count == 0) continue;
      std::memcpy(operation.out.data + last.first + slice.first, group.result(i, last_round), slice.count);
      count_shared(mesh, slice.count);
    }
  };
  pass(
      mesh, context, operation.in.size_bytes(), kBlockBytes,
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        for (std::uint32_t i = 0; i < group.count(); ++i) {  // only we need our own slice
          const Part slice = slice_of(size, i);
          if (i != group.index()) copy_bytes(stage + slice.first, operation.in.data + begin + slice.first, slice.count);
        }
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        const Part slice = slice_of(size, group.index());
        const std::byte* own = operation.in.data + begin + slice.first;
        std::byte* sums = group.result(group.index(), round);
        reducer([&](std::uint32_t i) { return i == group.index() ? own : group.stage(i, round) + slice.first; },
                slice.count / element, sums);
        copy_bytes(operation.out.data + begin + slice.first, sums, slice.count);
        count_shared(mesh, slice.count * (group.count() - 1));
        take_sums();
        last = {begin, size};
        last_round = round;
      });
  mesh.local_barrier(context);
  take_sums();
}

void all_reduce_in_place(Mesh& mesh, const Operation& operation, const OpContext& context,
                         std::span<const CallSignature> calls) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.dtype);
  std::vector<std::byte*> data(group.count());
  for (std::uint32_t i = 0; i < group.count(); ++i) {
    const CallSignature& call = calls[mesh.local_ranks()[i]];
    data[i] = group.at(i, call.segment, call.offset, operation.in.size_bytes());
  }
  Reducer reducer(operation, mesh.lanes(operation));
  const Part slice = part_of(operation.in.count, element, group.count(), group.index());
  constexpr std::size_t kInCache =
      16u << 10;  // what was just summed is still in the first-level cache when it is copied
  const std::size_t step = kInCache / element;
  for (std::size_t done = 0; done < slice.count; done += step) {
    const std::size_t count = std::min(step, slice.count - done);
    const std::size_t offset = (slice.first + done) * element;
    std::byte* own = data[group.index()] + offset;
    reducer([&](std::uint32_t i) { return data[i] + offset; }, count, own);
    for (std::uint32_t i = 0; i < group.count(); ++i) {
      if (i != group.index()) std::memcpy(data[i] + offset, own, count * element);
    }
  }
  count_shared(mesh, 2 * slice.count * element * (group.count() - 1));  // read, and written
  mesh.local_barrier(context);
}

void reduce(Mesh& mesh, const Operation& operation, const OpContext& context) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.dtype);
  const bool at_root = mesh.local_ranks()[group.index()] == operation.root;
  Reducer reducer(operation, mesh.lanes(operation));
  pass(
      mesh, context, operation.in.size_bytes(), kBlockBytes,
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        if (!at_root) std::memcpy(stage, operation.in.data + begin, size);
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        if (!at_root) return;
        reducer([&](std::uint32_t i) { return i == group.index() ? operation.in.data + begin : group.stage(i, round); },
                size / element, operation.out.data + begin);
        count_shared(mesh, size * (group.count() - 1));
      });
}

void broadcast(Mesh& mesh, const Operation& operation, const OpContext& context) {
  LocalGroup& group = *mesh.local();
  const auto& ranks = mesh.local_ranks();
  const auto root = static_cast<std::uint32_t>(std::ranges::find(ranks, operation.root) - ranks.begin());
  pass(
      mesh, context, operation.in.size_bytes(), LocalGroup::kStageBytes,
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        if (root == group.index()) std::memcpy(stage, operation.in.data + begin, size);
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        if (root == group.index()) return;
        std::memcpy(operation.out.data + begin, group.stage(root, round), size);
        count_shared(mesh, size);
      });
}

void all_gather(Mesh& mesh, const Operation& operation, const OpContext& context) {
  collect(mesh, operation, context, true);
}

void gather(Mesh& mesh, const Operation& operation, const OpContext& context) {
  collect(mesh, operation, context, mesh.rank() == operation.root);
}

void reduce_scatter(Mesh& mesh, const Operation& operation, const OpContext& context) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.dtype);
  const std::vector<std::size_t> at = positions(operation.in_counts);
  const std::size_t longest = *std::ranges::max_element(operation.in_counts) * element;
  const Cells cells(group.count(), element);
  Reducer reducer(operation, mesh.lanes(operation));
  pass(
      mesh, context, longest, cells.bytes(),
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        for (std::uint32_t i = 0; i < group.count(); ++i) {
          copy_bytes(cells.of(stage, i), operation.in.data + at[i] * element + begin,
                     below(begin, size, operation.in_counts[i] * element));
        }
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        const std::size_t bytes = below(begin, size, operation.out.size_bytes());
        reducer([&](std::uint32_t i) { return cells.of(group.stage(i, round), group.index()); }, bytes / element,
                operation.out.data + begin);
        count_shared(mesh, bytes * (group.count() - 1));
      });
}

void scatter(Mesh& mesh, const Operation& operation, const OpContext& context) {
  LocalGroup& group = *mesh.local();
  const auto& ranks = mesh.local_ranks();
  const auto root = static_cast<std::uint32_t>(std::ranges::find(ranks, operation.root) - ranks.begin());
  const std::size_t element = size_of(operation.out.count > 0 ? operation.out.dtype : operation.in.dtype);
  const std::vector<std::size_t> at = positions(operation.in_counts);
  const std::size_t longest = *std::ranges::max_element(operation.in_counts) * element;
  const Cells cells(group.count(), element);
  pass(
      mesh, context, longest, cells.bytes(),
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        if (root != group.index()) return;
        for (std::uint32_t i = 0; i < group.count(); ++i) {
          copy_bytes(cells.of(stage, i), operation.in.data + at[i] * element + begin,
                     below(begin, size, operation.in_counts[i] * element));
        }
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        const std::size_t bytes = below(begin, size, operation.out.size_bytes());
        copy_bytes(operation.out.data + begin, cells.of(group.stage(root, round), group.index()), bytes);
        if (root != group.index()) count_shared(mesh, bytes);
      });
}

void all_to_all(Mesh& mesh, const Operation& operation, const OpContext& context, std::size_t most) {
  LocalGroup& group = *mesh.local();
  const std::size_t element = size_of(operation.in.count > 0 ? operation.in.dtype : operation.out.dtype);
  const std::vector<std::size_t> from = positions(operation.in_counts);
  const std::vector<std::size_t> to = positions(operation.out_counts);
  const Cells cells(group.count(), element);
  pass(
      mesh, context, most * element, cells.bytes(),
      [&](std::size_t begin, std::size_t size, std::byte* stage) {
        for (std::uint32_t i = 0; i < group.count(); ++i) {
          copy_bytes(cells.of(stage, i), operation.in.data + from[i] * element + begin,
                     below(begin, size, operation.in_counts[i] * element));
        }
      },
      [&](std::size_t begin, std::size_t size, std::uint32_t round) {
        for (std::uint32_t i = 0; i < group.count(); ++i) {
          const std::size_t bytes = below(begin, size, operation.out_counts[i] * element);
          copy_bytes(operation.out.data + to[i] * element + begin, cells.of(group.stage(i, round), group.index()),
                     bytes);
          if (i != group.index()) count_shared(mesh, bytes);
        }
      });
}

}  // namespace shared_memory
}  // namespace trireme::collective
