#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "tests/collective/nccl/stand_in/stream.h"

namespace {

struct Range {
  std::size_t bytes;
  cudaMemoryType type;
};

std::mutex mutex;
std::map<std::uintptr_t, Range> ranges;  // guarded by mutex

cudaError_t allocate(void** memory, std::size_t bytes, cudaMemoryType type) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0x5a, bytes);
  const std::lock_guard lock(mutex);
  ranges[reinterpret_cast<std::uintptr_t>(*memory)] = {bytes, type};
  return cudaSuccess;
}

cudaError_t release(void* memory) {
  {
    const std::lock_guard lock(mutex);
    ranges.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 8;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) { return device >= 0 && device < 8 ? cudaSuccess : cudaErrorInvalidValue; }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::lock_guard lock(mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  attributes->type = cudaMemoryTypeUnregistered;
  auto range = ranges.upper_bound(address);
  if (range == ranges.begin()) return cudaSuccess;
  --range;
  if (address < range->first + range->second.bytes) attributes->type = range->second.type;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) { return allocate(memory, bytes, cudaMemoryTypeDevice); }
cudaError_t cudaFree(void* memory) { return release(memory); }
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  stream->enqueue([memory] { release(memory); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  return allocate(memory, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaFreeHost(void* memory) { return release(memory); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  stream->enqueue([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new StandInStream;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return stream->empty() ? cudaSuccess : cudaErrorNotReady; }
