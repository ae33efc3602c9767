#include <algorithm>

#include "cuda/columns.h"
#include "cuda/launch.h"
#include "cuda/type_switch.h"

namespace trireme::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kRows = 8;      // of threads in a block
constexpr int kEach = 8;      // columns of a thread
constexpr int kStripes = 96;  // of rows, each a block

template <typename T>
__device__ __forceinline__ float gelu_slope(float x) {
  constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kCube = 0.044715f;
  const float inner = kRoot * (x + kCube * x * x * x);
  const float t = sizeof(T) == 2 ? fast_tanh(inner) : tanhf(inner);
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRoot * (1 + 3 * kCube * x * x);
}

template <typename T, bool gelu>
__global__ void __launch_bounds__(kWarp* kRows) sum_stripes(ColumnSums sums, const T* before, T* result) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x) * kEach;
  __shared__ float shared[kRows][kWarp * kEach];
  float total[kEach] = {};
  if (column < sums.columns) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * kRows;
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kRows + threadIdx.y; row < sums.rows; row += step) {
      const std::int64_t at = row * sums.columns + column;
      float x[kEach];
      load(static_cast<const T*>(sums.values) + at, x);
      if constexpr (gelu) {
        float inner[kEach];
        load(before + at, inner);
#pragma unroll
        for (int i = 0; i < kEach; ++i) x[i] *= gelu_slope<T>(inner[i]);
        store(result + at, x);
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) total[i] += x[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) shared[threadIdx.y][threadIdx.x * kEach + i] = total[i];
  __syncthreads();
  const int own = static_cast<int>(threadIdx.y) * kWarp + static_cast<int>(threadIdx.x);  // kWarp * kEach of them
  const std::int64_t to = static_cast<std::int64_t>(blockIdx.x) * kWarp * kEach + own;
  if (to >= sums.columns) return;
  float sum = 0;
  for (int row = 0; row < kRows; ++row) sum += shared[row][own];
  sums.workspace[static_cast<std::size_t>(blockIdx.y) * sums.columns + to] = sum;
}
static_assert(kRows == kEach);  // as many threads as columns of a block

__global__ void add_stripes(ColumnSums sums, int stripes) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= sums.columns) return;
  float sum = 0;
  for (int stripe = 0; stripe < stripes; ++stripe) {
    sum += sums.workspace[static_cast<std::size_t>(stripe) * sums.columns + column];
  }
  sums.sums[column] = sum;
}

template <bool gelu>
void start(const ColumnSums& sums, const void* before, void* result, Stream stream) {
  if (sums.columns == 0) return;
  const auto blocks = static_cast<unsigned>((sums.columns + kWarp * kEach - 1) / (kWarp * kEach));
  const auto stripes = static_cast<unsigned>(std::clamp<std::int64_t>((sums.rows + kRows - 1) / kRows, 1, kStripes));
  with_type(sums.type, [&](auto number) {
    using T = decltype(number);
    launch("sum columns", sum_stripes<T, gelu>, dim3(blocks, stripes), dim3(kWarp, kRows), 0, stream, sums,
           static_cast<const T*>(before), static_cast<T*>(result));
  });
  launch("sum columns", add_stripes, static_cast<unsigned>((sums.columns + 127) / 128), 128, 0, stream, sums,
         static_cast<int>(stripes));
}

}  // namespace

std::size_t column_workspace(std::int64_t columns) { return kStripes * static_cast<std::size_t>(columns); }

void column_sums(const ColumnSums& sums, Stream stream) { start<false>(sums, nullptr, nullptr, stream); }

void gelu_backward(const ColumnSums& sums, const void* before, void* result, Stream stream) {
  start<true>(sums, before, result, stream);
}

}  // namespace trireme::cuda
