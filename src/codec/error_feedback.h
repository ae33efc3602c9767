#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "codec/spec.h"

namespace trireme::codec {

/// The memory of one encoded vector (a bucket, a chunk): what an encoding left out, the residual, is added to the next
/// gradient (Seide et al. 2014; why it converges: Karimireddy et al. 2019, Stich et al. 2018). All decoded values plus
/// the residual sum to all gradients, up to rounding: nothing is lost, only late.
///
/// If the spec has no error feedback or is lossless (`none`), it holds no memory and only encodes. Otherwise two floats
/// per value: the residual, and the previous one, for `undo`. Not thread-safe.
class ErrorFeedback {
 public:
  /// For vectors of `count` values, with a residual of zero. Throws InvalidArgument for a spec that `validate` rejects.
  ErrorFeedback(const Spec& spec, std::size_t count);

  /// Encodes `values` + residual like `codec::encode` and keeps what that left out. Does not change `values`.
  ///
  /// Values that are not finite are sent (see codec.h) but never kept: a residual that is not finite becomes zero, so
  /// after the step that shows them everything goes on as if those values had been sent.
  void encode(std::uint64_t key, std::span<const float> values, MutableBytes out);

  /// Makes the last `encode` final: its step counted, and `undo` does nothing.
  void commit() { can_undo_ = false; }

  /// Reverts the last `encode`, bit by bit, unless it was committed: its step did not count (a peer died, the update
  /// was skipped), and the gradient is computed again or dropped. After a failure in the middle of a step it may be
  /// called for all buckets, whether they were encoded already or not.
  void undo();

  /// Drops everything left out so far.
  void clear();

  /// Returns what the next `encode` adds; empty without memory. For checkpoints and for moving lanes to another worker.
  std::span<const float> residual() const { return residual_; }
  /// Restores a saved residual. Throws InvalidArgument unless it has as many values as `residual()`.
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
