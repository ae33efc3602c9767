#include "checkpoint/staging.h"

#include <sys/mman.h>

#include "base/error.h"

namespace trireme::checkpoint {

void Staging::Unmap::operator()(std::byte* address) const { ::munmap(address, size); }

Staging& Staging::operator=(Staging&& other) noexcept {
  memory_ = std::move(other.memory_);
  capacity_ = std::exchange(other.capacity_, 0);
  pieces_ = std::exchange(other.pieces_, {});
  limit_ = std::exchange(other.limit_, 0);
  used_ = std::exchange(other.used_, 0);
  return *this;
}

void Staging::reset(std::uint64_t bytes) {
  pieces_.clear();
  used_ = 0;
  limit_ = 0;
  if (bytes > capacity_) {
    memory_.reset();
    capacity_ = 0;
    void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) fail_errno(fmt::format("cannot get {} bytes to stage a checkpoint in", bytes));
    ::madvise(address, bytes, MADV_HUGEPAGE);  // training waits for the first copy into it: fewer page faults
    memory_ = {static_cast<std::byte*>(address), Unmap{bytes}};
    capacity_ = bytes;
  }
  limit_ = bytes;
}

MutableBytes Staging::add(std::string tensor, std::uint64_t offset, std::uint64_t length) {
  if (length > limit_ - used_) {
    fail<InvalidArgument>(
        "'{}' with {} bytes does not fit: {} of {} bytes are staged; reset with the sum of all pieces", tensor, length,
        used_, limit_);
  }
  const MutableBytes place(memory_.get() + used_, length);
  if (length == 0) return place;  // nothing to write, and readers reject empty pieces
  pieces_.push_back({.tensor = std::move(tensor), .offset = offset, .length = length});
  used_ += length;
  return place;
}

}  // namespace trireme::checkpoint
