#include "net/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace trireme::net {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which Debian 12's headers lack

MutableBytes map_shared(int descriptor, std::size_t bytes, Segment::Access access) {
  const int protection = access == Segment::Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  // Large pages need an address to match: reserve more than is needed, map at the first that fits, give back the rest.
  const std::size_t spare = bytes >= kLargePage ? kLargePage : 0;
  void* reserved = ::mmap(nullptr, bytes + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) fail_errno(fmt::format("cannot map {} bytes of shared memory", bytes));
  auto* const begin = static_cast<std::byte*>(reserved);
  const std::size_t misfit = reinterpret_cast<std::uintptr_t>(begin) % kLargePage;
  const std::size_t before = spare == 0 || misfit == 0 ? 0 : kLargePage - misfit;
  if (before > 0) ::munmap(begin, before);
  if (spare > before) ::munmap(begin + before + bytes, spare - before);
  if (::mmap(begin + before, bytes, protection, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
    const int problem = errno;
    ::munmap(begin + before, bytes);
    errno = problem;
    fail_errno(fmt::format("cannot map {} bytes of shared memory", bytes));
  }
  return {begin + before, bytes};
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

void Segment::use_large_pages() const {
  // A wish: kernels before 6.1 do not know it, and memory may be too scattered. Small pages are as right, only slower.
  const std::size_t whole = bytes_.size() / kLargePage * kLargePage;
  if (whole > 0) ::madvise(bytes_.data(), whole, kCollapse);
}

void Segment::seal_writes() {
  if (::fcntl(descriptor_.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) fail_errno("cannot seal shared memory");
}

}  // namespace trireme::net
