#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace trireme::checkpoint {

/// A file that is being written, front to back. Closed by the destructor. One thread at a time.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  /// Appends the first bytes of `bytes`, which are some: at least one, perhaps not all. Returns how many. Throws
  /// IoError naming the file (disk full, …). Whole pages from page-aligned memory are the fast way.
  virtual std::size_t write(Bytes bytes) = 0;

  /// Returns when what was written would survive a loss of power; throws IoError.
  virtual void sync() = 0;
};

/// What the writing side of checkpoints asks of a file system: the seam at which tests let disks fill up and machines
/// die. Any thread. All throw IoError naming the path and what the system says.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// A new empty file in place of what was at `path`.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;

  /// With its parents; fine if it is there.
  virtual void make_folder(const std::filesystem::path& path) = 0;

  /// Replaces `to`, as one step for everybody who looks.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;

  /// A file, or a folder with nothing in it; fine if it is not there.
  virtual void remove(const std::filesystem::path& path) = 0;

  /// Returns when creations, renames and removals in `folder` would survive a loss of power.
  virtual void sync_folder(const std::filesystem::path& folder) = 0;

  /// The names in `folder`, sorted; none if there is no such folder.
  virtual std::vector<std::string> list(const std::filesystem::path& folder) = 0;

  /// Bytes of the file; nothing if there is no file of that name.
  virtual std::optional<std::uint64_t> size(const std::filesystem::path& path) = 0;

  /// The whole file. Throws Corrupt if it is larger than `at_most`, before memory is taken for it.
  virtual std::string read(const std::filesystem::path& path, std::uint64_t at_most) = 0;
};

/// The operating system's; it has no state. Writes past the page cache where the disk's file system knows how to:
/// twice as fast as through it, and the memory of others is left alone.
FileSystem& real_file_system();

/// Writes all of `bytes`, however many calls it takes.
void write_all(WritableFile& file, Bytes bytes);

/// Replaces `path` by `content`, durably: a reader, or a crash, sees the old file or the new one. On failure nothing
/// is left beside it, as far as the system lets us.
void replace_file(FileSystem& files, const std::filesystem::path& path, std::string_view content);

}  // namespace trireme::checkpoint
