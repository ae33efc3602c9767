#pragma once

// A device that is the CPU, on which kernels run in their emulation: in the place of tensor/device/device_runtime.h.
#define TRIREME_EMULATED_DEVICE

#include <cstdlib>
#include <cstring>

#include <torch/types.h>

#include "tensor/device/device_kernels.h"

namespace trireme::device::runtime {

inline bool present() { return true; }
inline constexpr torch::DeviceType kDevice = torch::kCPU;

struct Guard {
  explicit Guard(torch::Device /*device*/) {}
  ~Guard() {}  // NOLINT(modernize-use-equals-default): it is used for its lifetime alone
};

inline void* stream_of(torch::Device /*device*/) { return nullptr; }
inline void synchronize(torch::Device /*device*/) {}

inline void* allocate(std::size_t bytes) { return std::calloc(bytes, 1); }
inline void release(void* memory) { std::free(memory); }

/// Ranks are threads of one process.
inline SharedMemory::Handle handle_of(void* memory) {
  SharedMemory::Handle handle{};
  std::memcpy(handle.data(), &memory, sizeof(memory));
  return handle;
}
inline void* map(const SharedMemory::Handle& handle) {
  void* memory = nullptr;
  std::memcpy(&memory, handle.data(), sizeof(memory));
  return memory;
}
inline void unmap(void* /*memory*/) {}

inline torch::Tensor staging(std::size_t bytes) {
  return torch::empty({static_cast<std::int64_t>(bytes)}, torch::kUInt8);
}

inline void copy(void* to, const void* from, std::size_t bytes, torch::Device /*device*/) {
  std::memcpy(to, from, bytes);
}

}  // namespace trireme::device::runtime
