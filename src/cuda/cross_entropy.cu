#include <cmath>

#include "cuda/cross_entropy.h"
#include "cuda/launch.h"
#include "cuda/type_switch.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 1024;  // the rows that are at work fit into the cache of an H100
constexpr int kWarp = 32;

/// A maximum, and a sum of exponentials relative to it.
struct Exponentials {
  float most;
  float sum;
};

__device__ __forceinline__ Exponentials combine(Exponentials a, Exponentials b) {
  const float most = fmaxf(a.most, b.most);
  if (most == -INFINITY) return {most, 0};
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

__device__ Exponentials combine_block(Exponentials own) {
  __shared__ Exponentials warps[kThreads / kWarp];
  const auto combine_warp = [](Exponentials value) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = combine(value, {__shfl_xor_sync(~0u, value.most, distance), __shfl_xor_sync(~0u, value.sum, distance)});
    }
    return value;
  };
  own = combine_warp(own);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = own;
  __syncthreads();
  constexpr Exponentials kNone{-INFINITY, 0};
  return combine_warp(threadIdx.x % kWarp < kThreads / kWarp ? warps[threadIdx.x % kWarp] : kNone);
}

/// What a thread block finds in a row: the logarithm of the sum of its exponentials. The same in all threads.
template <typename T, int each>
__device__ float log_sum_of(const Logits& logits, const T* values) {
  Exponentials own{-INFINITY, 0};
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * each; i < logits.classes; i += kThreads * each) {
    float x[each];
    load(values + i, x);
    float most = own.most;
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if (i + k >= logits.classes) x[k] = -INFINITY;
      most = fmaxf(most, x[k]);
    }
    if (most == -INFINITY) continue;
    own.sum *= __expf(own.most - most);
    own.most = most;
#pragma unroll
    for (int k = 0; k < each; ++k) own.sum += __expf(x[k] - most);
  }
  const Exponentials all = combine_block(own);
  return all.most + logf(all.sum);
}

template <typename T>
__device__ float loss_of(const Logits& logits, const T* values, std::int64_t target, float log_sum) {
  const bool valid = target >= 0 && target < logits.classes;
  return valid ? log_sum - to_float(values[target]) : NAN;
}

/// Replaces a row by `scale` times its gradient.
template <typename T, int each>
__device__ void differentiate(const Logits& logits, T* values, std::int64_t target, float log_sum, float scale) {
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * each; i < logits.stride; i += kThreads * each) {
    float x[each];
    load(values + i, x);
#pragma unroll
    for (int k = 0; k < each; ++k) {
      const float probability = __expf(x[k] - log_sum);
      x[k] = i + k < logits.classes ? (probability - (i + k == target ? 1.0f : 0.0f)) * scale : 0.0f;
    }
    store(values + i, x);
  }
}

template <typename T, int each>
__global__ void __launch_bounds__(kThreads) forward(Logits logits, float* loss, float* log_sum) {
  const std::int64_t row = blockIdx.x;
  const T* const values = static_cast<const T*>(logits.values) + row * logits.stride;
  const float sum = log_sum_of<T, each>(logits, values);
  if (threadIdx.x != 0) return;
  log_sum[row] = sum;
  loss[row] = loss_of(logits, values, logits.targets[row], sum);
}

template <typename T, int each>
__global__ void __launch_bounds__(kThreads) backward(Logits logits, const float* log_sum, const float* of_loss) {
  const std::int64_t row = blockIdx.x;
  T* const values = static_cast<T*>(logits.values) + row * logits.stride;
  const float scale = *of_loss / static_cast<float>(logits.rows);
  differentiate<T, each>(logits, values, logits.targets[row], log_sum[row], scale);
}

/// Both; the second time a row is read it comes from the cache.
template <typename T, int each>
__global__ void __launch_bounds__(kThreads) at_once(Logits logits, float* loss, float of_loss) {
  const std::int64_t row = blockIdx.x;
  T* const values = static_cast<T*>(logits.values) + row * logits.stride;
  const std::int64_t target = logits.targets[row];
  const float sum = log_sum_of<T, each>(logits, values);
  if (threadIdx.x == 0) loss[row] = loss_of(logits, values, target, sum);
  __syncthreads();  // the target's logit has been read
  differentiate<T, each>(logits, values, target, sum, of_loss / static_cast<float>(logits.rows));
}

template <typename T, int each>
__global__ void __launch_bounds__(kThreads) rescale(Logits logits, float assumed, const float* of_loss) {
  if (*of_loss == assumed) return;
  T* const values = static_cast<T*>(logits.values) + static_cast<std::int64_t>(blockIdx.x) * logits.stride;
  const float ratio = *of_loss / assumed;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * each; i < logits.stride; i += kThreads * each) {
    float x[each];
    load(values + i, x);
#pragma unroll
    for (int k = 0; k < each; ++k) x[k] *= ratio;
    store(values + i, x);
  }
}

/// Calls `work` with how many elements are moved at once: rows must begin where that many are aligned.
template <typename Work>
void with_each(const Logits& logits, Work work) {
  const bool wide = logits.stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(logits.values) % 16 == 0;
  if (wide) return work(std::integral_constant<int, 8>());
  work(std::integral_constant<int, 1>());
}

}  // namespace

void cross_entropy(const Logits& logits, float* loss, float* log_sum, Stream stream) {
  if (logits.rows == 0) return;
  const auto blocks = static_cast<unsigned>(logits.rows);
  with_type(logits.type, [&](auto number) {
    with_each(logits, [&](auto each) {
      launch("compute a cross entropy", forward<decltype(number), each.value>, blocks, kThreads, 0, stream, logits,
             loss, log_sum);
    });
  });
}

void cross_entropy_backward(const Logits& logits, const float* log_sum, const float* of_loss, Stream stream) {
  if (logits.rows == 0) return;
  const auto blocks = static_cast<unsigned>(logits.rows);
  with_type(logits.type, [&](auto number) {
    with_each(logits, [&](auto each) {
      launch("differentiate a cross entropy", backward<decltype(number), each.value>, blocks, kThreads, 0, stream,
             logits, log_sum, of_loss);
    });
  });
}

void cross_entropy_at_once(const Logits& logits, float of_loss, float* loss, Stream stream) {
  if (logits.rows == 0) return;
  const auto blocks = static_cast<unsigned>(logits.rows);
  with_type(logits.type, [&](auto number) {
    with_each(logits, [&](auto each) {
      launch("compute and differentiate a cross entropy", at_once<decltype(number), each.value>, blocks, kThreads, 0,
             stream, logits, loss, of_loss);
    });
  });
}

void cross_entropy_rescale(const Logits& gradient, float assumed, const float* of_loss, Stream stream) {
  if (gradient.rows == 0) return;
  const auto blocks = static_cast<unsigned>(gradient.rows);
  with_type(gradient.type, [&](auto number) {
    with_each(gradient, [&](auto each) {
      launch("differentiate a cross entropy", rescale<decltype(number), each.value>, blocks, kThreads, 0, stream,
             gradient, assumed, of_loss);
    });
  });
}

}  // namespace trireme::cuda
