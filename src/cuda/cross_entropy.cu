#include <cmath>

#include "cuda/cross_entropy.h"
#include "cuda/launch.h"
#include "cuda/type_switch.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 1024;  // the rows that are at work fit into the cache of an H100
constexpr int kHolders = 1024;  // threads that hold a row in their registers
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

/// What all `threads` of a block have found, in all of them.
template <int threads>
__device__ Exponentials combine_block(Exponentials own) {
  __shared__ Exponentials warps[threads / kWarp];
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
  return combine_warp(threadIdx.x % kWarp < threads / kWarp ? warps[threadIdx.x % kWarp] : kNone);
}

/// Adds the exponentials of neighbours; those from `end` on do not count.
template <int each>
__device__ __forceinline__ void add(Exponentials& own, float (&x)[each], std::int64_t end) {
  float most = own.most;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    if (k >= end) x[k] = -INFINITY;
    most = fmaxf(most, x[k]);
  }
  if (most == -INFINITY) return;
  own.sum *= __expf(own.most - most);
  own.most = most;
#pragma unroll
  for (int k = 0; k < each; ++k) own.sum += __expf(x[k] - most);
}

constexpr float kLog2e = 1.4426950408889634f;

/// The same where all count.
template <int each>
__device__ __forceinline__ void add_all(Exponentials& own, const float (&x)[each]) {
  float most = own.most;
#pragma unroll
  for (int k = 0; k < each; ++k) most = fmaxf(most, x[k]);
  if (most == -INFINITY) return;
  if (most > own.most) {
    own.sum *= fast_exp2((own.most - most) * kLog2e);
    own.most = most;
  }
  const float offset = -most * kLog2e;
#pragma unroll
  for (int k = 0; k < each; ++k) own.sum += fast_exp2(fmaf(x[k], kLog2e, offset));
}

/// What a thread block finds in a row: the logarithm of the sum of its exponentials. The same in all threads.
template <typename T, int each>
__device__ float log_sum_of(const Logits& logits, const T* values) {
  Exponentials own{-INFINITY, 0};
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * each; i < logits.classes; i += kThreads * each) {
    float x[each];
    load(values + i, x);
    add(own, x, logits.classes - i);
  }
  const Exponentials all = combine_block<kThreads>(own);
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

constexpr int kSharers = 512;  // threads that keep a row in shared memory, so that two rows are at work on a processor

/// Both, of rows of which two fit into a processor's shared memory: while one is computed with, the other moves.
template <typename T>
__global__ void __launch_bounds__(kSharers, 2) at_once_shared(Logits logits, float* loss, float of_loss) {
  constexpr int kEach = 8;
  TRIREME_DYNAMIC_SHARED(float4, memory);
  T* const held = reinterpret_cast<T*>(memory);
  const std::int64_t row = blockIdx.x;
  T* const values = static_cast<T*>(logits.values) + row * logits.stride;
  const std::int64_t target = logits.targets[row];
  const int classes = static_cast<int>(logits.classes);
  const int stride = static_cast<int>(logits.stride);
  const int first = static_cast<int>(threadIdx.x) * kEach;
  for (int i = first; i < stride; i += kSharers * kEach) copy_ahead(held + i, values + i);
  await_copies();  // each thread computes with what it has copied
  Exponentials own{-INFINITY, 0};
  for (int i = first; i < classes; i += kSharers * kEach) {
    float x[kEach];
    load(held + i, x);
    if (i + kEach <= classes) {
      add_all(own, x);
    } else {
      add(own, x, classes - i);
    }
  }
  const Exponentials all = combine_block<kSharers>(own);  // and all copies are there
  const float log_sum = all.most + logf(all.sum);
  if (threadIdx.x == 0) loss[row] = loss_of(logits, held, target, log_sum);
  const float scale = of_loss / static_cast<float>(logits.rows);
  const float offset = (logf(scale) - log_sum) * kLog2e;  // the gradient is a power of two of one more sum
  for (int i = first; i < stride; i += kSharers * kEach) {
    float x[kEach];
    load(held + i, x);
#pragma unroll
    for (int k = 0; k < kEach; ++k) x[k] = fast_exp2(fmaf(x[k], kLog2e, offset));
    if (i + kEach > classes) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) x[k] = i + k < classes ? x[k] : 0.0f;
    }
    if (target >= i && target < i + kEach) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) x[k] -= i + k == target ? scale : 0.0f;
    }
    store(values + i, x);
  }
}

/// `combine` over the values of all threads of a block.
template <typename Combine>
__device__ float combine_holders(float value, float none, Combine combine) {
  __shared__ float warps[kHolders / kWarp];
  const auto combine_warp = [&](float mine) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      mine = combine(mine, __shfl_xor_sync(~0u, mine, distance));
    }
    return mine;
  };
  value = combine_warp(value);
  __syncthreads();  // what was there before has been read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  return combine_warp(threadIdx.x % kWarp < kHolders / kWarp ? warps[threadIdx.x % kWarp] : none);
}

/// Both, of rows that fit into a block's registers: memory is read once, and all of a row at a time.
template <typename T, int packs>
__global__ void __launch_bounds__(kHolders, 1) at_once_held(Logits logits, float* loss, float of_loss) {
  constexpr int kEach = 8;
  const std::int64_t row = blockIdx.x;
  T* const values = static_cast<T*>(logits.values) + row * logits.stride;
  const std::int64_t target = logits.targets[row];
  const int classes = static_cast<int>(logits.classes);
  const int stride = static_cast<int>(logits.stride);
  const auto place = [](int k) { return (k * kHolders + static_cast<int>(threadIdx.x)) * kEach; };
  Pack<T, kEach> held[packs];
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    if (place(k) < stride) held[k] = *reinterpret_cast<const Pack<T, kEach>*>(values + place(k));
  }
  float most = -INFINITY;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (place(k) + i < classes) most = fmaxf(most, to_float(held[k].values[i]));
    }
  }
  most = combine_holders(most, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
#pragma unroll
  for (int k = 0; k < packs; ++k) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (place(k) + i < classes) sum += __expf(to_float(held[k].values[i]) - most);
    }
  }
  const float log_sum = most + logf(combine_holders(sum, 0, [](float a, float b) { return a + b; }));
  if (threadIdx.x == 0) loss[row] = loss_of(logits, values, target, log_sum);
  __syncthreads();  // the target's logit has been read
  const float scale = of_loss / static_cast<float>(logits.rows);
#pragma unroll
  for (int k = 0; k < packs; ++k) {
    if (place(k) >= stride) continue;
    float x[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const float probability = __expf(to_float(held[k].values[i]) - log_sum);
      x[i] = place(k) + i < classes ? (probability - (place(k) + i == target ? 1.0f : 0.0f)) * scale : 0.0f;
    }
    store(values + place(k), x);
  }
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

/// Bytes of shared memory for a row, if two rows can be there at a time; else 0.
std::size_t shared_bytes_of_row(const Logits& logits) {
  constexpr std::size_t kReserved = 2u << 10;  // for a block's own, and what CUDA takes
  const bool wide = logits.stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(logits.values) % 16 == 0;
  if (!wide || logits.type == Type::kFloat) return 0;
  const std::size_t bytes = static_cast<std::size_t>(logits.stride) * 2;
  return 2 * (bytes + kReserved) <= shared_memory_of_processor() ? bytes : 0;
}

/// Calls `work` with how many packs of eight a thread has to hold of a row, if it can.
template <typename Work>
bool with_packs(const Logits& logits, Work work) {
  const bool wide = logits.stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(logits.values) % 16 == 0;
  const std::int64_t packs = (logits.stride + kHolders * 8 - 1) / (kHolders * 8);
  if (!wide || logits.type == Type::kFloat || packs > 7) return false;  // of 64 registers, 28
  if (packs <= 2) {
    work(std::integral_constant<int, 2>());
  } else if (packs <= 4) {
    work(std::integral_constant<int, 4>());
  } else {
    work(std::integral_constant<int, 7>());
  }
  return true;
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
    if (const std::size_t shared = shared_bytes_of_row(logits); shared > 0 && of_loss > 0) {
      return launch("compute and differentiate a cross entropy", at_once_shared<decltype(number)>, blocks, kSharers,
                    shared, stream, logits, loss, of_loss);
    }
    const bool held = with_packs(logits, [&](auto packs) {
      launch("compute and differentiate a cross entropy", at_once_held<decltype(number), packs.value>, blocks, kHolders,
             0, stream, logits, loss, of_loss);
    });
    if (held) return;
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
