#include "observe/append_file.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace trireme::observe {
namespace {

/// Writes as much as the system accepts; if that is not all, `errno` says why.
std::size_t write_some(int descriptor, Bytes bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

}  // namespace

AppendFile::AppendFile(FileDescriptor file, std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)), file_(std::move(file)), size_(size) {}

void AppendFile::append(Bytes row) {
  const MutexLock lock(mutex_);
  if (!file_) return;
  const std::size_t written = write_some(file_.get(), row);
  if (written == row.size()) {
    size_ += written;
    return;
  }
  const int reason = errno;
  // Part of a row would corrupt the next one too. If it cannot be removed, nothing more is written.
  if (written > 0 && ::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) file_.close();
  if (healthy_.exchange(false)) {
    log_error("file_write_failed", "cannot write; training continues, rows are missing from this file",
              {{"file", path_.string()}, {"reason", std::generic_category().message(reason)}});
  }
}

}  // namespace trireme::observe
