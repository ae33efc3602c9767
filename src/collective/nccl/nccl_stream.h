#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <vector>

#include "collective/operation.h"

namespace trireme::collective {

/// Throw IoError (CUDA) or PeerLost (NCCL) if `result` is an error. An operation in progress is none.
void check(cudaError_t result, const char* what);
void check(ncclResult_t result, const char* what);

/// One rank of a NCCL communicator with the stream its kernels run in. Does not block: operations are started, polled,
/// and aborted if they do not end. Not thread-safe; the caller sets the device.
class NcclStream {
 public:
  /// Starts to connect; poll `ready` until that is done.
  NcclStream(const ncclUniqueId& id, std::uint32_t rank, std::uint32_t size);

  /// Finalises a communicator that is idle, which the others must do too, within a few seconds; aborts any other.
  ~NcclStream();
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  ncclComm_t communicator() const { return communicator_; }
  cudaStream_t stream() const { return stream_; }

  /// Returns whether NCCL has done its last task: connected, launched. Throws PeerLost.
  bool ready();

  /// Returns whether the stream is empty. Throws IoError, PeerLost.
  bool idle();

  /// Makes kernels end, whatever they wait for, and waits a moment for that. The object is unusable afterwards.
  void abort();

 private:
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Arrays of the caller in a form that NCCL can use: device memory as it is, other memory by a copy on the device.
/// Buffers are kept for the next operation: freeing one might wait for kernels that wait for other ranks.
class Stage {
 public:
  explicit Stage(cudaStream_t stream) : stream_(stream) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Returns device memory that holds the elements of `array` at this point of the stream; always a copy if `copied`.
  const std::byte* input(const ConstArray& array, bool copied = false);

  /// Returns device memory whose content the next two functions copy to `array`.
  std::byte* output(const Array& array);

  /// Call it after launching the kernels.
  void begin_copy_back();

  /// Call it when the stream is empty.
  void finish_copy_back();

  /// Return buffers of at least `bytes`, valid until the next call: on the device, and pinned on the host.
  std::byte* device_scratch(std::size_t bytes) { return scratch_.device(bytes, stream_); }
  std::byte* host_scratch(std::size_t bytes) { return scratch_.host(bytes); }

 private:
  /// Grows, and frees nothing before its end.
  struct Buffers {
    std::vector<void*> device_blocks;
    std::vector<void*> host_blocks;
    std::size_t device_bytes = 0;
    std::size_t host_bytes = 0;

    std::byte* device(std::size_t bytes, cudaStream_t stream);
    std::byte* host(std::size_t bytes);
  };

  cudaStream_t stream_;
  Buffers in_;
  Buffers out_;
  Buffers scratch_;
  Array target_;                       // where the output belongs, if it was staged
  const std::byte* staged_ = nullptr;  // the output on the device
  bool through_host_ = false;          // and from there through pinned memory
};

/// The kind of memory that an array is in.
enum class Place { kDevice, kPinned, kPageable };
Place place_of(const void* memory);

}  // namespace trireme::collective
