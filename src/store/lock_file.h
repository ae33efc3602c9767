#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

#include "base/file.h"

namespace trireme::store {

/// Which file a path led to, to notice that it leads elsewhere now. Throws IoError if it leads nowhere.
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

/// A file that one holder at a time has locked, for as long as this object or its process lives: the kernel lets go of
/// it then. Among threads too. The file is empty and stays: removing it would let two holders lock two files.
class LockFile {
 public:
  /// Locks `path`, made if it is not there; nullopt if another has it. Throws IoError.
  static std::optional<LockFile> try_lock(const std::filesystem::path& path);

  /// Whether anybody has it. Does not lock it, even for a moment.
  static bool is_held(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return identity_.path(); }

  /// False once the path leads to another file, which others might lock.
  bool in_place() const { return identity_.in_place(); }

  void release() { file_.close(); }

 private:
  LockFile(FileDescriptor file, const std::filesystem::path& path) : file_(std::move(file)), identity_(path, file_) {}

  FileDescriptor file_;
  FileIdentity identity_;
};

}  // namespace trireme::store
