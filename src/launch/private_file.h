#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace trireme::launch {

/// Writes a new file that only its owner can read, in place of one that is there. Throws IoError.
inline void write_private_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::remove(path);
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail<IoError>("cannot write {}: {}", path.string(), std::strerror(errno));
  }
}

}  // namespace trireme::launch
