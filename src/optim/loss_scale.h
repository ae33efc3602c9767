#pragma once

#include <array>
#include <span>

#include "trireme/loss_scale.h"

namespace trireme::optim {

/// A loss scale that adapts, as it is now: three floats, so that it is saved, sent and kept by servers like a tensor.
struct LossScale {
  float scale = 1;
  float good = 0;     ///< steps since it changed last
  float skipped = 0;  ///< steps that were left out

  static constexpr std::size_t kFloats = 3;
  std::array<float, kFloats> floats() const { return {scale, good, skipped}; }
  static LossScale from(std::span<const float> floats) { return {floats[0], floats[1], floats[2]}; }

  bool operator==(const LossScale&) const = default;
};

inline constexpr std::string_view kLossScaleTensor = "loss_scale";  ///< what it is called in checkpoints

/// Returns what a run begins with.
LossScale first_scale(const LossScaleOptions& options);

/// Returns what it is after a step whose gradient was finite, or was not. Pure: all who know what became of the steps
/// come to the same scale.
LossScale after_step(LossScale scale, bool finite, Step growth_every);

/// Throws InvalidArgument, naming `step`, if it has shrunk so far that the scale cannot be what is wrong.
void check_useful(const LossScale& scale, Step step);

/// Whether no element is infinite or NaN.
bool all_finite(std::span<const float> values);

}  // namespace trireme::optim
