#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"
#include "cuda/type.h"

namespace trireme::cuda {

inline constexpr std::int64_t kMostNormWidth = 2048;  ///< and a multiple of 4

/// sum = x + branch, and its rows normalised: out = (sum - mean) / deviation * scale + offset. One pass over memory.
struct LayerNorm {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Type type = Type::kFloat;       ///< of `branch` and `out`
  const float* x = nullptr;       ///< rows × width, as all that is not said to be otherwise
  const void* branch = nullptr;   ///< null: nothing is added, and `sum` is not written
  const float* scale = nullptr;   ///< width
  const float* offset = nullptr;  ///< width
  double epsilon = 1e-5;
  float* sum = nullptr;
  void* out = nullptr;
  float* mean = nullptr;     ///< rows
  float* inverse = nullptr;  ///< rows: 1 / deviation
};

/// Throws IoError.
void layer_norm(const LayerNorm& norm, Stream stream);

struct LayerNormBackward {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  Type type = Type::kFloat;        ///< of `of_out` and `of_branch`
  const void* of_out = nullptr;    ///< gradient of `out`
  const float* of_sum = nullptr;   ///< gradient of `sum` from elsewhere; null: none
  const float* sum = nullptr;      ///< as computed forward (x where there was no branch)
  const float* scale = nullptr;    ///< width
  const float* mean = nullptr;     ///< rows
  const float* inverse = nullptr;  ///< rows
  float* of_x = nullptr;           ///< gradient of `x`
  void* of_branch = nullptr;       ///< the same again in the branch's type; null: not wanted
  float* of_scale = nullptr;       ///< width
  float* of_offset = nullptr;      ///< width
  float* workspace = nullptr;      ///< layer_norm_workspace(width) floats
};

std::size_t layer_norm_workspace(std::int64_t width);

/// Sums over rows are added in an order that depends on the shape alone. Throws IoError.
void layer_norm_backward(const LayerNormBackward& norm, Stream stream);

}  // namespace trireme::cuda
