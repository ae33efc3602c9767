#include "chaos/full_disk.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::chaos {
namespace {

constexpr const char* kRoomy = "size=50%";  // of memory, of which only what is written is used

}  // namespace

FullDisk::FullDisk(const std::filesystem::path& folder) : folder_(folder) {
  std::filesystem::create_directories(folder);
  const char* refusal = "a disk that fills up cannot be made here: it takes the right to mount, CAP_SYS_ADMIN (root)";
  if (::unshare(CLONE_NEWNS) != 0) fail_errno(refusal);
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail_errno(refusal);
  if (::mount("trireme", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, kRoomy) != 0) fail_errno(refusal);
}

void FullDisk::make_full() {
  struct statvfs disk {};
  if (::statvfs(folder_.c_str(), &disk) != 0) fail_errno("cannot look at the disk " + folder_.string());
  const std::uint64_t used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
  resize(fmt::format("size={}", std::max<std::uint64_t>(used, disk.f_frsize)));  // 0 would mean no limit
}

void FullDisk::make_room() { resize(kRoomy); }

void FullDisk::resize(const std::string& size) {
  if (::mount(nullptr, folder_.c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV, size.c_str()) != 0) {
    fail_errno("cannot change the size of the disk " + folder_.string());
  }
}

}  // namespace trireme::chaos
