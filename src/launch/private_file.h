#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace trireme::launch {

/// Writes a new file that only its owner can read, in place of one that is there: others find that one, or the new one.
/// Throws IoError.
inline void write_private_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path beside = path;
  beside += fmt::format(".{}.partial", ::getpid());
  ::unlink(beside.c_str());  // of a process that died
  const FileDescriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool written = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(beside.c_str(), path.c_str()) != 0) {
    const int problem = errno;
    ::unlink(beside.c_str());
    fail<IoError>("cannot write {}: {}", path.string(), std::strerror(problem));
  }
}

}  // namespace trireme::launch
