#pragma once

#include <optional>
#include <span>
#include <string>

#include "collective/operation.h"

namespace trireme::collective {

/// A rank's call as the others see it: at the start of each collective every rank shows its call to every other. Fixed
/// size and plain bytes: it is placed in shared memory and sent over the wire.
struct CallSignature {
  std::uint64_t number = 0;  ///< number of earlier collectives on this rank
  DType dtype = DType::kF32;
  OperationKind kind = OperationKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  std::uint8_t zero = 0;
  std::uint32_t root = 0;
  std::uint32_t trailer = 0;      ///< bytes that follow this call on the wire
  std::uint64_t count = 0;        ///< elements, for messages
  std::uint64_t fingerprint = 0;  ///< of everything else that must be the same on all ranks
  std::uint64_t segment = 0;      ///< the allocation that holds the data; 0 = private memory
  std::uint64_t offset = 0;       ///< and where in it
};
static_assert(sizeof(CallSignature) == 56 && std::is_trivially_copyable_v<CallSignature>);

CallSignature make_call(const Operation& operation, std::uint64_t number);

/// Returns whether it is a type that exists: a peer may send any number.
bool known(DType dtype);

/// Returns "all_reduce sum of 100 F32"; "an unknown operation" if a peer sent what no rank can mean.
std::string describe(const CallSignature& call);

/// Returns whether `theirs` and `ours` can be the same operation.
bool match(const CallSignature& ours, const CallSignature& theirs);

/// Returns the message for both ranks when their calls differ.
std::string describe_mismatch(Rank our_rank, const CallSignature& ours, Rank their_rank, const CallSignature& theirs);

}  // namespace trireme::collective
