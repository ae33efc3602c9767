#include "collective/operation.h"

#include <array>
#include <numeric>

#include "base/error.h"
#include "base/numbers/lanes.h"
#include "base/suggest.h"
#include "collective/reduction.h"

namespace trireme::collective {
namespace {

constexpr std::array<std::string_view, 11> kOperationNames = {
    "barrier", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
    "gather",  "scatter",    "all_to_all",     "send",       "recv"};
constexpr std::array<std::string_view, 8> kAlgorithmNames = {"auto", "one-shot",         "direct", "in-place",
                                                             "tree", "halving-doubling", "ring",   "hierarchical"};

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// Fills in equal parts, or checks that the given ones add up to `total`.
void complete(const Operation& operation, std::vector<std::size_t>& counts, std::size_t total, std::uint32_t size) {
  if (counts.empty()) {
    if (total % size != 0) {
      fail<InvalidArgument>("{}: {} elements cannot be cut into {} equal parts; give the count for each rank",
                            describe(operation), total, size);
    }
    counts.assign(size, total / size);
  }
  if (counts.size() != size) {
    fail<InvalidArgument>("{}: {} counts for {} ranks", describe(operation), counts.size(), size);
  }
  if (sum(counts) != total) {
    fail<InvalidArgument>("{}: the counts add up to {}, the memory has {} elements", describe(operation), sum(counts),
                          total);
  }
}

void expect(const Operation& operation, std::string_view what, std::size_t given, std::size_t needed) {
  if (given != needed) {
    fail<InvalidArgument>("{}: {} has {} elements, it must have {}", describe(operation), what, given, needed);
  }
}

void validate_lanes(const Operation& operation, std::uint32_t size) {
  const auto& lanes = operation.reduce.lanes;
  if (lanes.empty()) return;
  if (lanes.size() != size) {
    fail<InvalidArgument>("{}: lanes are given for {} of {} ranks", describe(operation), lanes.size(), size);
  }
  Lane next = 0;
  for (const LaneRange& range : lanes) {
    const bool follows = range.first == next && is_subtree(lanes.back().end(), range);
    if (!follows) {
      fail<InvalidArgument>("{}: lanes {}..{} are not the next subtree of {} lanes; deal_lanes makes such ranges",
                            describe(operation), range.first, range.end(), lanes.back().end());
    }
    next = range.end();
  }
}

/// An array without elements says nothing about its type, but the element size must be the same on all ranks: take the
/// type of the other side, if there is one.
void complete_types(Operation& operation) {
  const bool output_tells =
      operation.out.count > 0 || operation.kind == OperationKind::kScatter || operation.kind == OperationKind::kRecv;
  if (operation.in.count == 0 && output_tells) {
    operation.in.dtype = operation.out.dtype;
  } else if (operation.out.count == 0) {
    operation.out.dtype = operation.in.dtype;
  }
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter || kind == OperationKind::kReduce;
}

}  // namespace

std::string_view name_of(OperationKind kind) { return kOperationNames.at(static_cast<std::size_t>(kind)); }

std::string_view name_of(Algorithm algorithm) { return kAlgorithmNames.at(static_cast<std::size_t>(algorithm)); }

Algorithm parse_algorithm(const std::string& name) {
  for (std::size_t i = 0; i < kAlgorithmNames.size(); ++i) {
    if (kAlgorithmNames[i] == name) return static_cast<Algorithm>(i);
  }
  const std::vector<std::string> known(kAlgorithmNames.begin(), kAlgorithmNames.end());
  fail<InvalidArgument>("there is no algorithm '{}'{}", name, did_you_mean(name, known));
}

Operation all_reduce(Array data, ReduceOptions options) { return all_reduce(data, data, std::move(options)); }

Operation all_reduce(ConstArray in, Array out, ReduceOptions options) {
  return {.kind = OperationKind::kAllReduce, .in = in, .out = out, .reduce = std::move(options)};
}

Operation reduce_scatter(ConstArray in, Array out, ReduceOptions options, std::vector<std::size_t> counts) {
  return {.kind = OperationKind::kReduceScatter,
          .in = in,
          .out = out,
          .reduce = std::move(options),
          .in_counts = std::move(counts)};
}

Operation all_gather(ConstArray in, Array out, std::vector<std::size_t> counts) {
  return {.kind = OperationKind::kAllGather, .in = in, .out = out, .out_counts = std::move(counts)};
}

Operation broadcast(Array data, Rank root) {
  return {.kind = OperationKind::kBroadcast, .in = data, .out = data, .root = root};
}

Operation reduce(ConstArray in, Array out, Rank root, ReduceOptions options) {
  return {.kind = OperationKind::kReduce, .in = in, .out = out, .reduce = std::move(options), .root = root};
}

Operation gather(ConstArray in, Array out, Rank root, std::vector<std::size_t> counts) {
  return {.kind = OperationKind::kGather, .in = in, .out = out, .root = root, .out_counts = std::move(counts)};
}

Operation scatter(ConstArray in, Array out, Rank root, std::vector<std::size_t> counts) {
  return {.kind = OperationKind::kScatter, .in = in, .out = out, .root = root, .in_counts = std::move(counts)};
}

Operation all_to_all(ConstArray in, Array out, std::vector<std::size_t> to, std::vector<std::size_t> from) {
  return {.kind = OperationKind::kAllToAll,
          .in = in,
          .out = out,
          .in_counts = std::move(to),
          .out_counts = std::move(from)};
}

Operation send(ConstArray data, Rank peer) { return {.kind = OperationKind::kSend, .in = data, .root = peer}; }

Operation recv(Array data, Rank peer) { return {.kind = OperationKind::kRecv, .out = data, .root = peer}; }

Operation barrier() { return {}; }

void validate(Operation& operation, Rank rank, std::uint32_t size) {
  complete_types(operation);
  if (operation.root >= size) {
    fail<InvalidArgument>("{}: there is no rank {} among {} ranks", describe(operation), operation.root, size);
  }
  const bool at_root = rank == operation.root;
  const ConstArray& in = operation.in;
  const Array& out = operation.out;
  if (reduces(operation.kind)) {
    if (in.dtype == DType::kBool) fail<InvalidArgument>("{}: truth values cannot be reduced", describe(operation));
    validate_lanes(operation, size);
  }
  switch (operation.kind) {
    case OperationKind::kBarrier:
      return;
    case OperationKind::kSend:
    case OperationKind::kRecv:
      if (at_root && size > 0) fail<InvalidArgument>("{}: that is this rank itself", describe(operation));
      return;
    case OperationKind::kBroadcast:
    case OperationKind::kAllReduce:
      expect(operation, "the output", out.count, in.count);
      break;
    case OperationKind::kReduce:
      if (at_root) expect(operation, "the root's output", out.count, in.count);
      break;
    case OperationKind::kReduceScatter:
      complete(operation, operation.in_counts, in.count, size);
      expect(operation, "the output", out.count, operation.in_counts[rank]);
      break;
    case OperationKind::kAllGather:
      complete(operation, operation.out_counts, out.count, size);
      expect(operation, "the input", in.count, operation.out_counts[rank]);
      break;
    case OperationKind::kGather:
      if (operation.out_counts.empty()) operation.out_counts.assign(size, in.count);
      complete(operation, operation.out_counts, at_root ? out.count : sum(operation.out_counts), size);
      expect(operation, "the input", in.count, operation.out_counts[rank]);
      break;
    case OperationKind::kScatter:
      if (operation.in_counts.empty()) operation.in_counts.assign(size, out.count);
      complete(operation, operation.in_counts, at_root ? in.count : sum(operation.in_counts), size);
      expect(operation, "the output", out.count, operation.in_counts[rank]);
      break;
    case OperationKind::kAllToAll:
      complete(operation, operation.in_counts, in.count, size);
      complete(operation, operation.out_counts, out.count, size);
      if (in.data == out.data && operation.in_counts != operation.out_counts) {
        fail<InvalidArgument>("{}: in place, each rank must get as much as it gives", describe(operation));
      }
      break;
  }
  const bool both = in.count > 0 && out.count > 0;
  if (both && in.dtype != out.dtype) {
    fail<InvalidArgument>("{}: the input is {}, the output {}", describe(operation), name_of(in.dtype),
                          name_of(out.dtype));
  }
}

std::string describe(const Operation& operation) {
  const ConstArray data = operation.in.count > 0 ? operation.in : ConstArray(operation.out);
  switch (operation.kind) {
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter:
      return fmt::format("{} {} of {} {}", name_of(operation.kind), name_of(operation.reduce.op), data.count,
                         name_of(data.dtype));
    case OperationKind::kReduce:
      return fmt::format("reduce {} of {} {} to rank {}", name_of(operation.reduce.op), data.count, name_of(data.dtype),
                         operation.root);
    case OperationKind::kSend:
      return fmt::format("send of {} {} to rank {}", data.count, name_of(data.dtype), operation.root);
    case OperationKind::kRecv:
      return fmt::format("recv of {} {} from rank {}", data.count, name_of(data.dtype), operation.root);
    case OperationKind::kBroadcast:
    case OperationKind::kGather:
    case OperationKind::kScatter:
      return fmt::format("{} of {} {} with root {}", name_of(operation.kind), data.count, name_of(data.dtype),
                         operation.root);
    case OperationKind::kAllGather:
    case OperationKind::kAllToAll:
      return fmt::format("{} of {} {}", name_of(operation.kind), data.count, name_of(data.dtype));
  }
  return "an unknown operation";
}

}  // namespace trireme::collective
