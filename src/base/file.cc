#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace trireme {

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() { return std::exchange(descriptor_, -1); }

void FileDescriptor::close() {
  if (descriptor_ >= 0) ::close(release());
}

std::string read_file(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_errno("cannot open " + path.string());
  constexpr std::size_t kAtOnce = 64 << 10;
  std::string content;
  for (std::size_t held = 0;;) {  // until the end, not by size: files of /proc have none
    content.resize(held + std::max(kAtOnce, held));
    const ssize_t read = ::read(file.get(), content.data() + held, content.size() - held);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) fail_errno("cannot read " + path.string());
    held += static_cast<std::size_t>(read);
    if (read == 0) {
      content.resize(held);
      return content;
    }
  }
}

namespace {

void write_all(int descriptor, Bytes bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_errno("cannot write " + path.string());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) fail_errno("cannot sync folder " + folder.string());
}

}  // namespace

void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const std::function<void(Bytes)>&)>& write) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::filesystem::path beside = path;
  beside += fmt::format(".{}.partial", ::getpid());
  FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) fail_errno("cannot create " + beside.string());
  try {
    write([&](Bytes bytes) { write_all(file.get(), bytes, path); });
    if (::fsync(file.get()) != 0) fail_errno("cannot sync " + beside.string());
    if (::rename(beside.c_str(), path.c_str()) != 0) fail_errno("cannot rename " + beside.string());
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
  sync_folder(folder);
}

void write_file_atomically(const std::filesystem::path& path, Bytes content) {
  write_file_atomically(path, [&](const auto& sink) { sink(content); });
}

}  // namespace trireme
