#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/bytes.h"

namespace trireme {

/// An open file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { close(); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }
  int release();
  void close();

 private:
  int descriptor_ = -1;
};

/// Returns the whole file as bytes. Throws IoError naming the file.
std::string read_file(const std::filesystem::path& path);

/// Replaces `path` by `content` so that a reader, even after a crash, sees the old file or the new one, never a part of
/// it: writes a file beside it, syncs, renames. Throws IoError naming the file.
void write_file_atomically(const std::filesystem::path& path, Bytes content);

/// Does the same for content too large for one span: `write` is called with a sink that may be called many times.
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const std::function<void(Bytes)>& sink)>& write);

}  // namespace trireme
