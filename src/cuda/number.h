#pragma once

// Sixteen-bit numbers as kernels read and write them: several at a time, computed with in float.

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "cuda/launch.h"

namespace trireme::cuda {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half(x);
}

/// `n` neighbouring numbers, moved by one or two instructions.
template <typename T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Pack {
  T values[n];
};

template <typename T, int n>
__device__ __forceinline__ void load(const T* from, float (&to)[n]) {
  const auto pack = *reinterpret_cast<const Pack<T, n>*>(from);
#pragma unroll
  for (int i = 0; i < n; ++i) to[i] = to_float(pack.values[i]);
}

template <typename T, int n>
__device__ __forceinline__ void store(T* to, const float (&from)[n]) {
  Pack<T, n> pack;
#pragma unroll
  for (int i = 0; i < n; ++i) pack.values[i] = from_float<T>(from[i]);
  *reinterpret_cast<Pack<T, n>*>(to) = pack;
}

#if defined(__CUDACC__)
/// One instruction; exact to eleven bits, which is more than sixteen-bit numbers have.
__device__ __forceinline__ float fast_tanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 2 to the power of x, likewise: exact to 22 bits.
__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
#endif

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}

}  // namespace trireme::cuda
