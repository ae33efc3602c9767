#pragma once

#include <cuda_runtime.h>

#include <string>

#include "trireme/error.h"

namespace trireme::cuda {

/// Throws IoError that says what was wanted, if a call of CUDA failed. Without {fmt}, which nvcc does not understand.
inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw IoError("the GPU could not " + std::string(what) + ": " + cudaGetErrorString(status));
  }
}

inline cudaStream_t native(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace trireme::cuda
