#pragma once

// How kernels are started: by nvcc's compiler on a GPU, by any other in the emulation.

#include "cuda/stream.h"

#if defined(__CUDACC__)

#include "cuda/check.h"

#define TRIREME_DYNAMIC_SHARED(type, name) extern __shared__ type name[]

namespace trireme::cuda {

/// Starts `kernel` on `stream`. Throws IoError that says `what` could not be done.
template <typename... Parameters, typename... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            Stream stream, Arguments... arguments) {
  kernel<<<grid, block, shared_bytes, native(stream)>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), what);
}

}  // namespace trireme::cuda

#else
#include "cuda/emulation.h"
#endif
