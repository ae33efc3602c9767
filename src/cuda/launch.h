#pragma once

// How kernels are started: by nvcc's compiler on a GPU, by any other in the emulation.

#include "cuda/stream.h"

#if defined(__CUDACC__)

#include <cuda_pipeline.h>

#include "cuda/check.h"

#define TRIREME_DYNAMIC_SHARED(type, name) extern __shared__ type name[]

namespace trireme::cuda {

/// Starts `kernel` on `stream`. Throws IoError that says `what` could not be done.
template <typename... Parameters, typename... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            Stream stream, Arguments... arguments) {
  constexpr std::size_t kUnasked = 48u << 10;  // more has to be asked for
  if (shared_bytes > kUnasked) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
          what);
  }
  kernel<<<grid, block, shared_bytes, native(stream)>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), what);
}

/// Bytes of shared memory that the blocks at work on one multiprocessor of the current device have in all.
inline std::size_t shared_memory_of_processor() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device), "say which one it is");
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), "describe itself");
  return static_cast<std::size_t>(bytes);
}

/// Begins to copy 16 bytes from the device's memory into shared memory; they are there once `await_copies` returns, for
/// this thread.
__device__ __forceinline__ void copy_ahead(void* to, const void* from) { __pipeline_memcpy_async(to, from, 16); }
__device__ __forceinline__ void await_copies() {
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

}  // namespace trireme::cuda

#else
#include "cuda/emulation.h"
#endif
