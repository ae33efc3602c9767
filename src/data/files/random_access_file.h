#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/bytes.h"
#include "base/file.h"

namespace trireme::data {

/// A regular file, read at any place. Immutable, so any number of threads may read.
///
/// A plain file is read where it is: by pread, not through a mapping, so that one that shrinks meanwhile is an error
/// and not a signal, and so that pages of the cache do not count as our memory. A packed one is unpacked once, into a
/// file without a name in the system's temporary folder, which is gone when this is.
class RandomAccessFile {
 public:
  static constexpr std::uint64_t kMostUnpacked = std::uint64_t{64} << 30;

  /// Opens `path`, or a packed file of that name, as ByteSource does. Throws as ByteSource; IoError also if a packed
  /// one takes more than `most_unpacked` bytes.
  explicit RandomAccessFile(std::filesystem::path path, std::uint64_t most_unpacked = kMostUnpacked);

  /// Returns the next bytes of something that is unpacked: 0 at its end.
  using Unpack = std::function<std::size_t(MutableBytes out)>;

  /// Unpacks what `unpack` gives, a part of the file `path`, as above.
  RandomAccessFile(std::filesystem::path path, const Unpack& unpack, std::uint64_t most_unpacked = kMostUnpacked);

  std::uint64_t size() const { return size_; }

  /// Fills `out` with the bytes from `offset` on. Throws Corrupt if the file ends before that; IoError if the disk
  /// fails.
  void read(std::uint64_t offset, MutableBytes out) const;

  const std::filesystem::path& path() const { return path_; }
  bool packed() const { return packed_; }
  std::int64_t modified() const { return modified_; }  ///< nanoseconds since 1970: of the file that was named

  /// Returns `/data/x.gz, byte 16 (unpacked)`: for messages.
  std::string at(std::uint64_t offset) const;

 private:
  void keep(const Unpack& unpack, std::uint64_t most);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::uint64_t size_ = 0;
  std::int64_t modified_ = 0;
  bool packed_ = false;
};

}  // namespace trireme::data
