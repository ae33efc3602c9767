#pragma once

// What our kernels' host side needs of CUDA and of LibTorch's use of it, and nothing else: tests compile it with
// another one, where the device is the CPU (tests/device/emulated_runtime.h).

#include <cstddef>
#include <cstring>

#include <torch/types.h>

#if !defined(TRIREME_EMULATED_DEVICE)

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <torch/cuda.h>

#include "cuda/check.h"
#include "tensor/device/device_kernels.h"

namespace trireme::device::runtime {

inline bool present() { return torch::cuda::is_available(); }
inline constexpr torch::DeviceType kDevice = torch::kCUDA;

using Guard = c10::cuda::CUDAGuard;

inline cudaStream_t stream_of(torch::Device device) { return c10::cuda::getCurrentCUDAStream(device.index()).stream(); }
inline void synchronize(torch::Device device) { c10::cuda::getCurrentCUDAStream(device.index()).synchronize(); }

/// Memory that other processes can map: not LibTorch's, which are parts of larger pieces.
inline void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  cuda::check(cudaMalloc(&memory, bytes), "allocate memory for gradients");
  cuda::check(cudaMemset(memory, 0, bytes), "clear memory");
  return memory;
}
inline void release(void* memory) { cudaFree(memory); }  // an error has been seen elsewhere, if there is one

inline SharedMemory::Handle handle_of(void* memory) {
  cudaIpcMemHandle_t native;
  static_assert(sizeof(native) == SharedMemory::kHandleBytes);
  cuda::check(cudaIpcGetMemHandle(&native, memory), "share its memory with other processes");
  SharedMemory::Handle handle;
  std::memcpy(handle.data(), &native, sizeof(native));
  return handle;
}
inline void* map(const SharedMemory::Handle& handle) {
  cudaIpcMemHandle_t native;
  std::memcpy(&native, handle.data(), sizeof(native));
  void* memory = nullptr;
  cuda::check(cudaIpcOpenMemHandle(&memory, native, cudaIpcMemLazyEnablePeerAccess),
              "map the memory of another process");
  return memory;
}
inline void unmap(void* memory) { cudaIpcCloseMemHandle(memory); }

/// Memory of the host that copies to and from the device need not wait for; LibTorch reuses it once they are through.
inline torch::Tensor staging(std::size_t bytes) {
  return torch::empty({static_cast<std::int64_t>(bytes)}, torch::TensorOptions(torch::kUInt8).pinned_memory(true));
}

/// From the host or to it.
inline void copy(void* to, const void* from, std::size_t bytes, torch::Device device) {
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(device)), "copy memory");
}

}  // namespace trireme::device::runtime

#endif
