#include "optim/clipping.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trireme::optim {
namespace {

constexpr double kTorchEpsilon = 1e-6;  // as in clip_grad_norm_

}  // namespace

double clip_factor(double squares, double samples, double clip_norm, Step step) {
  if (samples <= 0) return 1;
  const double norm = std::sqrt(squares) / samples;
  if (!std::isfinite(norm)) {
    fail<InvalidArgument>(
        "the gradient of step {} is not finite: the learning rate may be too high, or the data bad; a loss that is "
        "finite can have such a gradient",
        step);
  }
  return std::min(1.0, clip_norm / (norm + kTorchEpsilon));
}

}  // namespace trireme::optim
