#include "collective/nccl/nccl_stream.h"

#include <bit>
#include <cstring>

#include "base/error.h"
#include "collective/engine_support.h"
#include "collective/rank_group.h"

namespace trireme::collective {

void check(cudaError_t result, const char* what) {
  if (result != cudaSuccess) fail<IoError>("{} failed: {}", what, cudaGetErrorString(result));
}

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail<PeerLost>("{} failed: {}; NCCL_DEBUG=WARN tells more", what, ncclGetErrorString(result));
}

NcclStream::NcclStream(const ncclUniqueId& id, std::uint32_t rank, std::uint32_t size) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  check(ncclCommInitRankConfig(&communicator_, static_cast<int>(size), id, static_cast<int>(rank), &config),
        "ncclCommInitRankConfig");
}

NcclStream::~NcclStream() {
  if (communicator_ != nullptr) {
    try {
      // Other GPUs may still read memory that the communicator maps: all ranks finalise it together.
      if (ready() && idle()) {
        check(ncclCommFinalize(communicator_), "ncclCommFinalize");
        if (wait_until([this] { return ready(); }, Deadline::in(5s))) {
          ncclCommDestroy(communicator_);
          communicator_ = nullptr;
        }
      }
    } catch (const Error&) {
      // then without the others
    }
    abort();
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

bool NcclStream::ready() {
  if (communicator_ == nullptr) fail<PeerLost>("NCCL was aborted");
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
  check(state, "NCCL");
  return state != ncclInProgress;
}

bool NcclStream::idle() {
  const cudaError_t state = cudaStreamQuery(stream_);
  if (state == cudaErrorNotReady) {
    ready();  // a kernel that waits for a broken network never ends: NCCL reports it
    return false;
  }
  check(state, "cudaStreamQuery");
  return true;
}

void NcclStream::abort() {
  if (communicator_ == nullptr) return;
  ncclCommAbort(communicator_);
  communicator_ = nullptr;
  // Copies after the kernels in the stream still use memory that is not ours.
  wait_until([this] { return cudaStreamQuery(stream_) != cudaErrorNotReady; }, Deadline::in(5s));
}

Place place_of(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  switch (attributes.type) {
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return Place::kDevice;
    case cudaMemoryTypeHost:
      return Place::kPinned;
    default:
      return Place::kPageable;
  }
}

std::byte* Stage::Buffers::device(std::size_t bytes, cudaStream_t stream) {
  if (device_blocks.empty() || bytes > device_bytes) {
    device_bytes = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    void* block = nullptr;
    check(cudaMallocAsync(&block, device_bytes, stream), "cudaMallocAsync");
    device_blocks.push_back(block);
  }
  return static_cast<std::byte*>(device_blocks.back());
}

std::byte* Stage::Buffers::host(std::size_t bytes) {
  if (host_blocks.empty() || bytes > host_bytes) {
    host_bytes = std::bit_ceil(std::max<std::size_t>(bytes, 4096));
    void* block = nullptr;
    check(cudaHostAlloc(&block, host_bytes, cudaHostAllocDefault), "cudaHostAlloc");
    host_blocks.push_back(block);
  }
  return static_cast<std::byte*>(host_blocks.back());
}

Stage::~Stage() {
  for (Buffers* buffers : {&in_, &out_, &scratch_}) {
    for (void* block : buffers->device_blocks) cudaFreeAsync(block, stream_);
    for (void* block : buffers->host_blocks) cudaFreeHost(block);
  }
}

namespace {

bool is_aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0;
}

}  // namespace

const std::byte* Stage::input(const ConstArray& array, bool copied) {
  if (array.count == 0) return nullptr;
  const Place place = place_of(array.data);
  if (place == Place::kDevice && is_aligned(array.data, array.dtype) && !copied) return array.data;
  const std::size_t bytes = array.size_bytes();
  const std::byte* from = array.data;
  if (place == Place::kPageable) {
    std::byte* pinned = in_.host(bytes);
    std::memcpy(pinned, from, bytes);
    from = pinned;
  }
  std::byte* staged = in_.device(bytes, stream_);
  check(cudaMemcpyAsync(staged, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
  return staged;
}

std::byte* Stage::output(const Array& array) {
  target_ = {};
  if (array.count == 0) return nullptr;
  const Place place = place_of(array.data);
  if (place == Place::kDevice && is_aligned(array.data, array.dtype)) return array.data;
  target_ = array;
  through_host_ = place == Place::kPageable;
  std::byte* staged = out_.device(array.size_bytes(), stream_);
  staged_ = staged;
  return staged;
}

void Stage::begin_copy_back() {
  if (target_.count == 0) return;
  const std::size_t bytes = target_.size_bytes();
  std::byte* to = through_host_ ? out_.host(bytes) : target_.data;
  check(cudaMemcpyAsync(to, staged_, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

void Stage::finish_copy_back() {
  if (target_.count > 0 && through_host_) std::memcpy(target_.data, out_.host(0), target_.size_bytes());
  target_ = {};
}

}  // namespace trireme::collective
