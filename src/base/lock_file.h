#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace trireme {

/// Remembers which file a path led to, to detect that it was replaced. Throws IoError if there is no such file.
class FileIdentity {
 public:
  explicit FileIdentity(const std::filesystem::path& path);
  FileIdentity(const std::filesystem::path& path, const FileDescriptor& opened);

  const std::filesystem::path& path() const { return path_; }
  bool in_place() const;

 private:
  std::filesystem::path path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A file locked by one holder at a time, for as long as this object or its process lives: then the kernel releases it.
/// Works between threads too. The file stays: removing it would let two holders lock two files.
class LockFile {
 public:
  /// Locks `path`, which is created if needed; returns nullopt if another holder has it. Throws IoError.
  static std::optional<LockFile> try_lock(const std::filesystem::path& path);

  /// Returns whether it is held. Does not lock it, even for a moment.
  static bool is_held(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return identity_.path(); }

  /// Returns false once the path leads to another file, which others might lock.
  bool in_place() const { return identity_.in_place(); }

  /// Makes `text` the content of the file, for those who find it held. Throws IoError.
  void describe_holder(std::string_view text) const;

  void release() { file_.close(); }

 private:
  LockFile(FileDescriptor file, const std::filesystem::path& path) : file_(std::move(file)), identity_(path, file_) {}

  FileDescriptor file_;
  FileIdentity identity_;
};

}  // namespace trireme
