#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <vector>

#include "collective/operation.h"

namespace trireme::collective {

/// Throw IoError (CUDA) or PeerLost (NCCL) if something failed. What is still in progress has not.
void check(cudaError_t result, const char* what);
void check(ncclResult_t result, const char* what);

/// One rank of a NCCL communicator with the stream its kernels run in. Nothing here waits: operations are begun, asked
/// about, and aborted if they do not end. One thread at a time; the device is set by the caller.
class NcclStream {
 public:
  /// Begins to connect: `ready` says when that is done.
  NcclStream(const ncclUniqueId& id, std::uint32_t rank, std::uint32_t size);

  /// Ends a communicator that is at rest properly, which the others must do too, within a few seconds; aborts any
  /// other.
  ~NcclStream();
  NcclStream(const NcclStream&) = delete;
  NcclStream& operator=(const NcclStream&) = delete;

  ncclComm_t communicator() const { return communicator_; }
  cudaStream_t stream() const { return stream_; }

  /// Whether NCCL has done what it was told last: connected, launched. Throws PeerLost.
  bool ready();

  /// Whether the stream is empty. Throws IoError, PeerLost.
  bool idle();

  /// Makes kernels end, whatever they wait for, and waits a moment for that. Nothing can be done with it afterwards.
  void abort();

 private:
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Arrays of the caller as NCCL can use them: device memory as it is, other memory by a copy on the device. Buffers are
/// kept for the next operation: freeing one might wait for kernels that wait for other ranks.
class Stage {
 public:
  explicit Stage(cudaStream_t stream) : stream_(stream) {}
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Device memory that holds the elements of `array` when the stream comes to it; a copy in any case if `copied`.
  const std::byte* input(const ConstArray& array, bool copied = false);

  /// Device memory whose content becomes `array`'s by the next two calls.
  std::byte* output(const Array& array);

  /// Behind the kernels in the stream.
  void begin_copy_back();

  /// When the stream is empty.
  void finish_copy_back();

  /// Buffers of at least so many bytes, valid until the next call: on the device, and pinned on the host.
  std::byte* device_scratch(std::size_t bytes) { return scratch_.device(bytes, stream_); }
  std::byte* host_scratch(std::size_t bytes) { return scratch_.host(bytes); }

 private:
  /// Grows, and never gives back before its end.
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

/// Where the memory of an array is.
enum class Place { kDevice, kPinned, kPageable };
Place place_of(const void* memory);

}  // namespace trireme::collective
