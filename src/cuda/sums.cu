#include <algorithm>
#include <bit>

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

__device__ __forceinline__ float4 add(const float4& a, const float4& b) {
  return make_float4(__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w));
}

/// The usual case: parts of equally many lanes, a power of two of them, four elements at a time.
template <int count_of_parts>
__global__ void __launch_bounds__(kThreads) sum_pairwise(LaneSums sums, std::size_t begin, std::size_t fours) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < fours; i += stride) {
    float4 values[count_of_parts];
#pragma unroll
    for (int part = 0; part < count_of_parts; ++part) {
      values[part] = reinterpret_cast<const float4*>(sums.parts[part] + begin)[i];
    }
#pragma unroll
    for (int width = 1; width < count_of_parts; width *= 2) {
#pragma unroll
      for (int part = 0; part < count_of_parts; part += 2 * width) {
        values[part] = add(values[part], values[part + width]);
      }
    }
#pragma unroll
    for (int part = 0; part < count_of_parts; ++part) {
      reinterpret_cast<float4*>(sums.parts[part] + begin)[i] = values[0];
    }
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

/// Whether each part is combined with its neighbour, each pair with the next one, and so on.
bool pairwise(const LaneSums& sums) {
  for (std::uint32_t part = 0; part < sums.count; ++part) {
    if (sums.combinations[part] != std::countr_zero(part + 1)) return false;
  }
  return std::has_single_bit(sums.count);
}

}  // namespace

void sum_lanes(const LaneSums& sums, std::size_t begin, std::size_t count, Stream stream) {
  if (count == 0 || sums.count < 2) return;
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>((count + kThreads - 1) / kThreads, 4096));
  bool fours = count % 4 == 0 && pairwise(sums);
  for (std::uint32_t part = 0; part < sums.count; ++part) fours = fours && aligned(sums.parts[part] + begin);
  const auto start = [&](auto kernel, std::size_t items) {
    launch("sum gradients", kernel, blocks, kThreads, 0, stream, sums, begin, items);
  };
  if (fours && sums.count == 2) return start(sum_pairwise<2>, count / 4);
  if (fours && sums.count == 4) return start(sum_pairwise<4>, count / 4);
  if (fours && sums.count == 8) return start(sum_pairwise<8>, count / 4);
  start(sum_lanes_kernel, count);
}

void sum_of_squares(const float* values, std::size_t count, double* partials, double* result, Stream stream) {
  const std::size_t blocks = std::clamp<std::size_t>((count + kThreads - 1) / kThreads, 1, kSquareBlocks);
  launch("sum squares", square_partials, static_cast<unsigned>(blocks), kThreads, 0, stream, values, count, partials);
  launch("sum squares", add_partials, 1, kThreads, 0, stream, partials, blocks, result);
}

}  // namespace trireme::cuda
