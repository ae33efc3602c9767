#pragma once

// Runs kernels on the CPU, thread by thread, so that tests (and sanitizers) see them on machines without a GPU: the
// same text, compiled by any C++ compiler. Blocks run one after the other; the threads of a block are fibers, which
// change at barriers and shuffles. Slow, and exact but for the last bits of exp and tanh. One kernel at a time.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#include "base/numbers/half.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define TRIREME_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(emulation::dynamic_shared())

namespace trireme::cuda {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1)  // NOLINT: as CUDA's
      : x(across), y(down), z(deep) {}
};

namespace emulation {

/// Where the thread that runs now is.
struct Place {
  dim3 thread, block, grid, block_size;
};
extern Place place;

void* dynamic_shared();

/// See launch.h; tests change it.
inline std::size_t shared_memory = 228u << 10;

/// Waits for all threads of the block, or of the warp.
void block_barrier();
void warp_barrier();

/// Four bytes per thread of the block, by its number.
std::uint32_t& exchange_slot(unsigned thread);
unsigned thread_number();

/// Runs `thread` for every thread of every block.
void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

template <typename T>
T shuffle_xor(T value, int distance) {
  static_assert(sizeof(T) == 4);
  const unsigned own = thread_number();
  std::memcpy(&exchange_slot(own), &value, sizeof(T));
  warp_barrier();
  T other;
  std::memcpy(&other, &exchange_slot(own ^ static_cast<unsigned>(distance)), sizeof(T));
  warp_barrier();
  return other;
}

}  // namespace emulation

#define threadIdx (::trireme::cuda::emulation::place.thread)
#define blockIdx (::trireme::cuda::emulation::place.block)
#define gridDim (::trireme::cuda::emulation::place.grid)
#define blockDim (::trireme::cuda::emulation::place.block_size)

inline void __syncthreads() { emulation::block_barrier(); }
template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int distance) {
  return emulation::shuffle_xor(value, distance);
}

inline void copy_ahead(void* to, const void* from) { std::memcpy(to, from, 16); }
inline void await_copies() {}
inline std::size_t shared_memory_of_processor() { return emulation::shared_memory; }

inline float fast_tanh(float x) { return std::tanh(x); }
inline float fast_exp2(float x) { return std::exp2(x); }
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __fadd_rn(float a, float b) { return a + b; }

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct __half {
  std::uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) { return bf16_to_f32(x.bits); }
inline __nv_bfloat16 __float2bfloat16(float x) { return {f32_to_bf16(x)}; }
inline float __half2float(__half x) { return f16_to_f32(x.bits); }
inline __half __float2half(float x) { return {f32_to_f16(x)}; }

/// See launch.h.
template <typename... Parameters, typename... Arguments>
void launch(const char* /*what*/, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            void* /*stream*/, Arguments... arguments) {
  emulation::run(grid, block, shared_bytes, [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace trireme::cuda
