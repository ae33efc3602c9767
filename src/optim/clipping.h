#pragma once

#include "trireme/types.h"

#include "base/numbers/exact_sum.h"

namespace trireme::optim {

/// Returns the factor that makes the mean of a gradient at most `clip_norm` long, as torch's clip_grad_norm_ does:
/// clip_norm / (norm + 1e-6) where that is below 1, else 1. `squares` is the sum of the squares of all elements of the
/// gradient's sum over `samples` samples; of none the factor is 1. Pure: whoever knows the squares gets the same bits.
/// Throws InvalidArgument, naming `step`, if the norm is not finite.
double clip_factor(double squares, double samples, double clip_norm, Step step);
inline double clip_factor(const ExactSum& squares, double samples, double clip_norm, Step step) {
  return clip_factor(squares.value(), samples, clip_norm, step);
}

}  // namespace trireme::optim
