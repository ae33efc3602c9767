#include "collective/call_signature.h"

#include "base/random.h"

namespace trireme::collective {

bool known(DType dtype) { return dtype >= DType::kF32 && dtype <= DType::kBool; }

namespace {

template <typename Number>
void mix(std::uint64_t& fingerprint, Number number) {
  fingerprint = mix_seed(fingerprint, static_cast<std::uint64_t>(number));
}

bool has_names(const CallSignature& call) {
  return known(call.dtype) && call.kind <= OperationKind::kRecv && call.op <= ReduceOp::kProduct &&
         call.algorithm <= Algorithm::kHierarchical;
}

bool has_root(OperationKind kind) {
  return kind == OperationKind::kBroadcast || kind == OperationKind::kReduce || kind == OperationKind::kGather ||
         kind == OperationKind::kScatter;
}

}  // namespace

CallSignature make_call(const Operation& operation, std::uint64_t number) {
  // A rank without elements still has a type: that of the side that every rank of the operation uses.
  const bool by_output =
      operation.in.count == 0 && (operation.out.count > 0 || operation.kind == OperationKind::kScatter);
  const ConstArray data = by_output ? ConstArray(operation.out) : operation.in;
  CallSignature call{.number = number,
                     .dtype = data.dtype,
                     .kind = operation.kind,
                     .op = operation.reduce.op,
                     .algorithm = operation.reduce.algorithm,
                     .root = operation.root,
                     .count = data.count};
  mix(call.fingerprint, operation.reduce.any_order);
  for (const LaneRange& range : operation.reduce.lanes) mix(call.fingerprint, range.end());
  switch (operation.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
    case OperationKind::kBroadcast:
      mix(call.fingerprint, data.count);
      break;
    case OperationKind::kReduceScatter:
    case OperationKind::kScatter:
      for (const std::size_t count : operation.in_counts) mix(call.fingerprint, count);
      break;
    case OperationKind::kAllGather:
    case OperationKind::kGather:
      for (const std::size_t count : operation.out_counts) mix(call.fingerprint, count);
      break;
    default:  // parts of all_to_all differ by rank: they are compared one by one
      break;
  }
  return call;
}

std::string describe(const CallSignature& call) {
  if (!has_names(call)) return "an unknown operation";
  const ConstArray shape(call.dtype, nullptr, call.count);
  const Operation operation{.kind = call.kind,
                            .in = shape,
                            .out = Array(call.dtype, nullptr, call.count),
                            .reduce = {.op = call.op, .lanes = {}, .algorithm = call.algorithm},
                            .root = call.root};
  std::string text = describe(operation);
  if (call.algorithm != Algorithm::kAuto) text += fmt::format(" by {}", name_of(call.algorithm));
  return text;
}

bool match(const CallSignature& ours, const CallSignature& theirs) {
  const bool same_root = !has_root(ours.kind) || ours.root == theirs.root;
  const bool no_data = ours.kind == OperationKind::kBarrier || (ours.count == 0 && theirs.count == 0);
  return ours.number == theirs.number && ours.kind == theirs.kind && same_root &&
         ours.fingerprint == theirs.fingerprint && ours.op == theirs.op && ours.algorithm == theirs.algorithm &&
         (no_data || ours.dtype == theirs.dtype);
}

std::string describe_mismatch(Rank our_rank, const CallSignature& ours, Rank their_rank, const CallSignature& theirs) {
  std::string mine = describe(ours);
  std::string other = describe(theirs);
  if (mine == other) {  // the difference is in what a description omits
    mine += fmt::format(" (call {}, parts {:08x})", ours.number, ours.fingerprint & 0xffffffff);
    other += fmt::format(" (call {}, parts {:08x})", theirs.number, theirs.fingerprint & 0xffffffff);
  }
  return fmt::format(
      "the ranks do not agree: rank {} asks for {}, rank {} for {}; all ranks must make the same calls in the same "
      "order",
      our_rank, mine, their_rank, other);
}

}  // namespace trireme::collective
