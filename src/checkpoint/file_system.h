#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace trireme::checkpoint {

/// A file that is being written, front to back. The destructor closes it. Not thread-safe.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  /// Appends the first bytes of `bytes`, which must not be empty: at least one, perhaps not all. Returns how many.
  /// Throws IoError naming the file (disk full, …). Whole pages from page-aligned memory are fastest.
  virtual std::size_t write(Bytes bytes) = 0;

  /// Returns once everything written would survive a power failure; throws IoError.
  virtual void sync() = 0;
};

/// What the writing side of checkpoints needs of a file system: the interface through which tests let disks fill up and
/// machines die. Thread-safe. All functions throw IoError naming the path and the system's error.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Creates an empty file, replacing any file at `path`.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;

  /// Creates a folder and its parents; does nothing if it exists.
  virtual void make_folder(const std::filesystem::path& path) = 0;

  /// Renames `from`, replacing `to` atomically.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  /// Removes a file or an empty folder; does nothing if it does not exist.
  virtual void remove(const std::filesystem::path& path) = 0;

  /// Returns once creations, renames and removals in `folder` would survive a power failure.
  virtual void sync_folder(const std::filesystem::path& folder) = 0;

  /// Returns the names in `folder`, sorted; empty if there is no such folder.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;

  /// Returns the size of the file in bytes; nullopt if there is no regular file of that name.
  virtual std::optional<std::uint64_t> size(const std::filesystem::path& path) = 0;

  /// Returns the whole file. Throws Corrupt if it is larger than `at_most`, before allocating memory for it.
  virtual std::string read(const std::filesystem::path& path, std::uint64_t at_most) = 0;
};

/// Returns the operating system's, which has no state. Bypasses the page cache where the file system supports that:
/// twice as fast, and does not evict other programs' pages.
FileSystem& real_file_system();

/// Writes all of `bytes`, in as many calls as it takes.
void write_all(WritableFile& file, Bytes bytes);

/// Replaces `path` by `content`, durably: a reader, even after a crash, sees the old file or the new one. On failure
/// removes its temporary file if it can.
void replace_file(FileSystem& files, const std::filesystem::path& path, std::string_view content);

}  // namespace trireme::checkpoint
