#include "base/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace trireme {
namespace {

// Locks of the open file, not of the process: the latter are lost when any descriptor of the file is closed.
struct flock whole_file() {
  return {.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

}  // namespace

FileIdentity::FileIdentity(const std::filesystem::path& path) : path_(path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) fail_errno("cannot look at " + path.string());
  device_ = found.st_dev;
  inode_ = found.st_ino;
}

FileIdentity::FileIdentity(const std::filesystem::path& path, const FileDescriptor& opened) : path_(path) {
  struct stat found {};
  if (::fstat(opened.get(), &found) != 0) fail_errno("cannot look at " + path.string());
  device_ = found.st_dev;
  inode_ = found.st_ino;
}

bool FileIdentity::in_place() const {
  struct stat found {};
  return ::stat(path_.c_str(), &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
}

std::optional<LockFile> LockFile::try_lock(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file) fail_errno("cannot open " + path.string());
  struct flock lock = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return LockFile(std::move(file), path);
  if (errno != EAGAIN && errno != EACCES) fail_errno("cannot lock " + path.string());
  return std::nullopt;
}

void LockFile::describe_holder(std::string_view text) const {
  const bool written = ::ftruncate(file_.get(), 0) == 0 &&
                       ::pwrite(file_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) fail_errno("cannot write " + path().string());
}

bool LockFile::is_held(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file && errno == ENOENT) return false;
  struct flock lock = whole_file();
  if (!file || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) fail_errno("cannot look at the lock " + path.string());
  return lock.l_type != F_UNLCK;
}

}  // namespace trireme
