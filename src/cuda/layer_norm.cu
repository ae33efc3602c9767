#include <algorithm>

#include "cuda/launch.h"
#include "cuda/layer_norm.h"
#include "cuda/type_switch.h"

namespace trireme::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;             // of a block; each has a row at a time
constexpr int kEach = 4;              // elements that a thread moves at once
constexpr int kBackwardBlocks = 396;  // three for each multiprocessor of an H100

/// A warp's part in a row: pack `k` of a thread begins here.
__device__ __forceinline__ int place(int k) { return (k * kWarp + static_cast<int>(threadIdx.x)) * kEach; }

template <typename T, int packs>
__global__ void __launch_bounds__(kWarp* kWarps) forward(LayerNorm norm) {
  const int width = static_cast<int>(norm.width);
  const auto epsilon = static_cast<float>(norm.epsilon);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; row < norm.rows; row += step) {
    const std::int64_t at = row * width;
    float values[packs][kEach];
    float total = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
      load(norm.x + at + place(k), values[k]);
      if (norm.branch != nullptr) {
        float more[kEach];
        load(static_cast<const T*>(norm.branch) + at + place(k), more);
#pragma unroll
        for (int i = 0; i < kEach; ++i) values[k][i] += more[i];
        store(norm.sum + at + place(k), values[k]);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) total += values[k][i];
    }
    const float mean = warp_sum(total) / static_cast<float>(width);
    float squares = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
#pragma unroll
      for (int i = 0; i < kEach; ++i) squares += (values[k][i] - mean) * (values[k][i] - mean);
    }
    const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(width) + epsilon);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
      float scale[kEach];
      float offset[kEach];
      load(norm.scale + place(k), scale);
      load(norm.offset + place(k), offset);
#pragma unroll
      for (int i = 0; i < kEach; ++i) scale[i] = (values[k][i] - mean) * inverse * scale[i] + offset[i];
      store(static_cast<T*>(norm.out) + at + place(k), scale);
    }
    if (threadIdx.x == 0) {
      norm.mean[row] = mean;
      norm.inverse[row] = inverse;
    }
  }
}

/// Adds what the warps of a block have summed for their rows, and leaves it in the block's part of the workspace.
template <int packs>
__device__ void add_warps(const float (&sums)[packs][kEach], float* shared, float* to, int width) {
  __syncthreads();
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    if (place(k) < width) store(shared + threadIdx.y * width + place(k), sums[k]);
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y) * kWarp + static_cast<int>(threadIdx.x);
  for (int i = thread; i < width; i += kWarp * kWarps) {
    float sum = 0;
    for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp * width + i];
    to[i] = sum;
  }
}

/// All blocks run at once: the last ones would have the multiprocessors to themselves otherwise.
template <typename T, int packs>
__global__ void __launch_bounds__(kWarp* kWarps, packs <= 6 ? 3 : 1) backward(LayerNormBackward norm) {
  TRIREME_DYNAMIC_SHARED(float, shared);
  constexpr bool kAtOnce = packs <= 8;  // there are registers for all that is read of a row
  const int width = static_cast<int>(norm.width);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  float of_scale[packs][kEach] = {};
  float of_offset[packs][kEach] = {};
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y; row < norm.rows; row += step) {
    const std::int64_t at = row * width;
    const float mean = norm.mean[row];
    const float inverse = norm.inverse[row];
    float normal[packs][kEach];   // the normalised row
    float through[packs][kEach];  // gradient times scale
    float elsewhere[kAtOnce ? packs : 1][kEach];
    float sum = 0;
    float product = 0;
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
      load(norm.sum + at + place(k), normal[k]);
      load(static_cast<const T*>(norm.of_out) + at + place(k), through[k]);
      if (kAtOnce && norm.of_sum != nullptr) load(norm.of_sum + at + place(k), elsewhere[k]);
    }
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
      float scale[kEach];
      load(norm.scale + place(k), scale);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        normal[k][i] = (normal[k][i] - mean) * inverse;
        of_scale[k][i] += through[k][i] * normal[k][i];
        of_offset[k][i] += through[k][i];
        through[k][i] *= scale[i];
        sum += through[k][i];
        product += through[k][i] * normal[k][i];
      }
    }
    sum = warp_sum(sum) / static_cast<float>(width);
    product = warp_sum(product) / static_cast<float>(width);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (place(k) >= width) continue;
      float (&more)[kEach] = elsewhere[kAtOnce ? k : 0];
      if (!kAtOnce && norm.of_sum != nullptr) load(norm.of_sum + at + place(k), more);
      float result[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float own = (through[k][i] - sum - normal[k][i] * product) * inverse;
        result[i] = norm.of_sum != nullptr ? more[i] + own : own;
      }
      store(norm.of_x + at + place(k), result);
      if (norm.of_branch != nullptr) store(static_cast<T*>(norm.of_branch) + at + place(k), result);
    }
  }
  float* const own = norm.workspace + static_cast<std::size_t>(blockIdx.x) * 2 * width;
  add_warps(of_scale, shared, own, width);
  add_warps(of_offset, shared, own + width, width);
}

/// Adds the sums of all blocks.
__global__ void add_blocks(const float* workspace, int blocks, int width, float* of_scale, float* of_offset) {
  const int column = static_cast<int>(blockIdx.x * kWarp + threadIdx.x);  // of both sums
  __shared__ float shared[kWarp][kWarp + 1];
  float sum = 0;
  if (column < 2 * width) {
    for (int block = static_cast<int>(threadIdx.y); block < blocks; block += kWarp) {
      sum += workspace[static_cast<std::size_t>(block) * 2 * width + column];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= 2 * width) return;
  for (int row = 1; row < kWarp; ++row) sum += shared[row][threadIdx.x];
  (column < width ? of_scale[column] : of_offset[column - width]) = sum;
}

/// Calls `work` with the number of packs that a thread needs for a row, as a constant.
template <typename Work>
void with_packs(std::int64_t width, Work work) {
  const std::int64_t packs = (width + kWarp * kEach - 1) / (kWarp * kEach);
  if (packs <= 2) return work(std::integral_constant<int, 2>());
  if (packs <= 6) return work(std::integral_constant<int, 6>());
  if (packs <= 8) return work(std::integral_constant<int, 8>());
  work(std::integral_constant<int, 16>());
}

}  // namespace

void layer_norm(const LayerNorm& norm, Stream stream) {
  if (norm.rows == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((norm.rows + kWarps - 1) / kWarps, 1 << 16));
  with_type(norm.type, [&](auto number) {
    with_packs(norm.width, [&](auto packs) {
      launch("normalise", forward<decltype(number), packs.value>, blocks, dim3(kWarp, kWarps), 0, stream, norm);
    });
  });
}

std::size_t layer_norm_workspace(std::int64_t width) { return kBackwardBlocks * 2 * static_cast<std::size_t>(width); }

void layer_norm_backward(const LayerNormBackward& norm, Stream stream) {
  if (norm.rows == 0) return;
  const auto width = static_cast<int>(norm.width);
  const int blocks = static_cast<int>(std::min<std::int64_t>((norm.rows + kWarps - 1) / kWarps, kBackwardBlocks));
  const std::size_t shared = kWarps * static_cast<std::size_t>(width) * sizeof(float);
  with_type(norm.type, [&](auto number) {
    with_packs(norm.width, [&](auto packs) {
      launch("differentiate a normalisation", backward<decltype(number), packs.value>, static_cast<unsigned>(blocks),
             dim3(kWarp, kWarps), shared, stream, norm);
    });
  });
  launch("differentiate a normalisation", add_blocks, static_cast<unsigned>((2 * width + kWarp - 1) / kWarp),
         dim3(kWarp, kWarp), 0, stream, norm.workspace, blocks, width, norm.of_scale, norm.of_offset);
}

}  // namespace trireme::cuda
