#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "cuda/type.h"

namespace trireme::cuda {

/// Rows of logits, of which the first `classes` count; a row begins `stride` elements after the one before.
struct Logits {
  std::int64_t rows = 0;
  std::int64_t classes = 0;
  std::int64_t stride = 0;
  Type type = Type::kFloat;
  void* values = nullptr;
  const std::int64_t* targets = nullptr;  ///< by row
};

/// loss[row] = log of the sum of exponentials - the target's logit; `log_sum` is kept for backward. Reads the logits
/// once and stores no probabilities. The loss of a target that is no class is NaN. Throws IoError.
void cross_entropy(const Logits& logits, float* loss, float* log_sum, Stream stream);

/// Replaces the logits by their gradient: (probability - 1 at the target) × *of_loss / rows; what lies between
/// `classes` and `stride` becomes zero. Throws IoError.
void cross_entropy_backward(const Logits& logits, const float* log_sum, const float* of_loss, Stream stream);

/// Both of these in one pass over memory, if it is known by what the loss will be multiplied. Throws IoError.
void cross_entropy_at_once(const Logits& logits, float of_loss, float* loss, Stream stream);

/// Corrects a gradient that was computed for `assumed` if the loss was multiplied by something else; does next to
/// nothing if it was not. Throws IoError.
void cross_entropy_rescale(const Logits& gradient, float assumed, const float* of_loss, Stream stream);

}  // namespace trireme::cuda
