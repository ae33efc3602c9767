#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mutex.h"

namespace trireme::observe {

/// Appends whole rows to a file, each with one write. A row that cannot be written completely is removed, so the file
/// never holds part of one (unless the machine dies meanwhile). Thread-safe.
class AppendFile {
 public:
  /// Takes over `file`, which was opened with O_APPEND and holds `size` bytes; `path` is for messages.
  AppendFile(FileDescriptor file, std::filesystem::path path, std::uint64_t size);

  /// Adds `row`. Does not throw if the disk is full: the first failure is logged as an error, later ones are silent;
  /// later rows are tried again (the disk may have room by then).
  void append(Bytes row);

  /// Returns whether every row so far was written.
  bool healthy() const { return healthy_; }

 private:
  std::atomic<bool> healthy_ = true;
  const std::filesystem::path path_;

  Mutex mutex_;
  FileDescriptor file_ TRIREME_GUARDED_BY(mutex_);
  std::uint64_t size_ TRIREME_GUARDED_BY(mutex_);  // of the complete rows
};

}  // namespace trireme::observe
