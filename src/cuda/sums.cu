#include <algorithm>

#include "cuda/launch.h"
#include "cuda/sums.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLevels = 8;  // of a stack for kMostParts values

__global__ void __launch_bounds__(kThreads) sum_lanes_kernel(LaneSums sums, std::size_t begin, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    float stack[kLevels];
    int height = 0;
    for (std::uint32_t part = 0; part < sums.count; ++part) {
      stack[height++] = sums.parts[part][begin + i];
      for (std::uint8_t n = sums.combinations[part]; n > 0; --n, --height) {
        stack[height - 2] = __fadd_rn(stack[height - 2], stack[height - 1]);
      }
    }
    for (std::uint32_t part = 0; part < sums.count; ++part) sums.parts[part][begin + i] = stack[0];
  }
}

/// Two parts, the usual case, four elements at a time.
__global__ void __launch_bounds__(kThreads) sum_two(float4* a, float4* b, std::size_t count) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const float4 x = a[i];
    const float4 y = b[i];
    a[i] = b[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  }
}

__device__ double block_sum(double value) {
  __shared__ double shared[kThreads];
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int width = kThreads / 2; width > 0; width /= 2) {
    if (static_cast<int>(threadIdx.x) < width) shared[threadIdx.x] += shared[threadIdx.x + width];
    __syncthreads();
  }
  return shared[0];
}

__global__ void __launch_bounds__(kThreads) square_partials(const float* values, std::size_t count, double* partials) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::size_t fours = reinterpret_cast<std::uintptr_t>(values) % alignof(float4) == 0 ? count / 4 : 0;
  double sum = 0;
  for (std::size_t i = first; i < fours; i += stride) {
    const float4 four = reinterpret_cast<const float4*>(values)[i];
    sum += static_cast<double>(four.x) * four.x + static_cast<double>(four.y) * four.y;
    sum += static_cast<double>(four.z) * four.z + static_cast<double>(four.w) * four.w;
  }
  for (std::size_t i = fours * 4 + first; i < count; i += stride) {
    const double value = values[i];
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_partials(const double* partials, std::size_t count, double* result) {
  double sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += kThreads) sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % alignof(float4) == 0; }

}  // namespace

void sum_lanes(const LaneSums& sums, std::size_t begin, std::size_t count, Stream stream) {
  if (count == 0 || sums.count < 2) return;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + kThreads - 1) / kThreads, 4096));
  float* const a = sums.parts[0] + begin;
  float* const b = sums.parts[1] + begin;
  if (sums.count == 2 && count % 4 == 0 && aligned(a) && aligned(b)) {
    launch("sum gradients", sum_two, blocks, kThreads, 0, stream, reinterpret_cast<float4*>(a),
           reinterpret_cast<float4*>(b), count / 4);
  } else {
    launch("sum gradients", sum_lanes_kernel, blocks, kThreads, 0, stream, sums, begin, count);
  }
}

void sum_of_squares(const float* values, std::size_t count, double* partials, double* result, Stream stream) {
  const std::size_t blocks = std::clamp<std::size_t>((count + kThreads - 1) / kThreads, 1, kSquareBlocks);
  launch("sum squares", square_partials, static_cast<unsigned>(blocks), kThreads, 0, stream, values, count, partials);
  launch("sum squares", add_partials, 1, kThreads, 0, stream, partials, blocks, result);
}

}  // namespace trireme::cuda
