#include "trireme/net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/base/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace trireme::net {
namespace {

MutableBytes map_shared(int descriptor, std::size_t bytes, Segment::Access access) {
  const int protection = access == Segment::Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) fail_errno(fmt::format("cannot map {} bytes of shared memory", bytes));
  return {static_cast<std::byte*>(address), bytes};
}

}  // namespace

std::shared_ptr<Segment> Segment::create(const std::string& name, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  FileDescriptor descriptor(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) fail_errno("cannot create shared memory");
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) {
    fail_errno(fmt::format("cannot reserve {} bytes of shared memory", bytes));
  }
  if (::fcntl(descriptor.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) fail_errno("cannot seal shared memory");
  const MutableBytes mapped = map_shared(descriptor.get(), bytes, Access::kReadWrite);
  return std::shared_ptr<Segment>(new Segment(std::move(descriptor), mapped));
}

std::shared_ptr<Segment> Segment::map(FileDescriptor descriptor, std::size_t bytes, Access access) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    fail<InvalidArgument>("a peer offered shared memory whose size is not sealed: it could be cut off under us");
  }
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_errno("cannot inspect a peer's shared memory");
  if (bytes == 0 || static_cast<std::size_t>(status.st_size) != bytes) {
    fail<InvalidArgument>("a peer offered {} bytes of shared memory but announced {}", status.st_size, bytes);
  }
  const MutableBytes mapped = map_shared(descriptor.get(), bytes, access);
  return std::shared_ptr<Segment>(new Segment(std::move(descriptor), mapped));
}

Segment::~Segment() { ::munmap(bytes_.data(), bytes_.size()); }

void Segment::seal_writes() {
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) fail_errno("cannot seal shared memory");
}

}  // namespace trireme::net
