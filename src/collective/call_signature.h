#pragma once

#include <optional>
#include <span>
#include <string>

#include "collective/operation.h"

namespace trireme::collective {

/// What a rank asks for, as the others see it: at the start of each collective every rank shows its call to every
/// other. Fixed size and plain bytes: it lies in shared memory and goes over the wire.
struct CallSignature {
  std::uint64_t number = 0;  ///< how many collectives came before on this rank
  DType dtype = DType::kF32;
  OperationKind kind = OperationKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  Algorithm algorithm = Algorithm::kAuto;
  std::uint8_t zero = 0;
  std::uint32_t root = 0;
  std::uint32_t trailer = 0;      ///< bytes that follow this call on the wire
  std::uint64_t count = 0;        ///< elements, for messages
  std::uint64_t fingerprint = 0;  ///< of all else that must be the same on all ranks
  std::uint64_t segment = 0;      ///< which allocation the data lies in; 0 = private memory
  std::uint64_t offset = 0;       ///< and where in it
};
static_assert(sizeof(CallSignature) == 56 && std::is_trivially_copyable_v<CallSignature>);

CallSignature make_call(const Operation& operation, std::uint64_t number);

/// "all_reduce sum of 100 F32"
std::string describe(const CallSignature& call);

/// Whether `theirs` can be one operation with `ours`.
bool match(const CallSignature& ours, const CallSignature& theirs);

/// What both ranks read when their calls differ.
std::string describe_mismatch(Rank our_rank, const CallSignature& ours, Rank their_rank, const CallSignature& theirs);

}  // namespace trireme::collective
