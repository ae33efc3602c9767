#pragma once

namespace trireme::cuda {

/// A cudaStream_t, for headers that must do without CUDA's.
using Stream = void*;

}  // namespace trireme::cuda
