#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/spec.h"

namespace trireme::codec {

/// The memory of one encoded vector (a bucket, a chunk): what an encoding left out, the residual, is added to the next
/// gradient (Seide et al. 2014; why it converges: Karimireddy et al. 2019, Stich et al. 2018). The sum of all that was
/// decoded plus the residual is the sum of all gradients, to rounding: nothing is lost, only late.
///
/// Where the spec has no error feedback or loses nothing (`none`) it holds no memory and just encodes. Otherwise two
/// floats per value: the residual, and the one before it, for `undo`. Used by one thread at a time.
class ErrorFeedback {
 public:
  /// For vectors of `count` values, with a residual of zero. Throws InvalidArgument for a spec that `validate` refuses.
  ErrorFeedback(const Spec& spec, std::size_t count);

  /// Encodes `values` + residual like `codec::encode` and keeps what that left out. `values` is left as it is.
  ///
  /// Values that are not finite travel (see codec.h) but never stay: a residual that would not be finite becomes zero,
  /// so after the step that shows them everything goes on as if those values had been sent.
  void encode(std::uint64_t key, std::span<const float> values, MutableBytes out);

  /// The step of the last `encode` counted: nothing is left to undo.
  void commit() { can_undo_ = false; }

  /// Takes back the last `encode`, bit by bit, unless it was committed: its step did not count (a peer died, the update
  /// was skipped), and the gradient is computed again or dropped. So on a failure in the middle of a step it may be
  /// called for all buckets, those that were encoded already and those that were not.
  void undo();

  /// Forgets everything left out so far.
  void clear();

  /// What the next encode adds; empty where nothing is held. For checkpoints and for handing lanes to another worker.
  std::span<const float> residual() const { return residual_; }
  /// Takes up a residual saved before. Throws InvalidArgument unless it has as many values as `residual()`.
  void restore(std::span<const float> residual);

  const Spec& spec() const { return spec_; }

 private:
  void encode_blocks(std::span<const float> values, MutableBytes out, std::span<float> next) const;
  void encode_sparse(std::uint64_t key, std::span<const float> values, MutableBytes out, std::span<float> next) const;

  Spec spec_;
  std::size_t count_;
  std::vector<float> residual_;
  std::vector<float> previous_;  ///< the residual before the last encode, if that can be undone
  bool can_undo_ = false;
};

}  // namespace trireme::codec
