#pragma once

namespace trireme::cuda {

/// What the elements of an array are, where kernels take several kinds.
enum class Type { kFloat, kBfloat16, kHalf };

}  // namespace trireme::cuda
