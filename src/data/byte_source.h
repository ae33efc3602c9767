#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"

namespace trireme::data {

/// The bytes of a regular file from front to back, unpacked if the file is gzip (its first two bytes tell, not its
/// name). Holds a fixed small buffer whatever the file claims. One thread at a time.
class ByteSource {
 public:
  /// Opens `path`, or `path`.gz if only that is there. Throws IoError if it is missing, unreadable or not a regular
  /// file.
  explicit ByteSource(std::filesystem::path path);
  ~ByteSource();

  /// Fills `out`; returns how many bytes it got: fewer than asked only at the end. The checksum of gzip data stands
  /// behind it, so whoever wants it checked reads until the end shows. Throws Corrupt if gzip data is damaged, cut
  /// short or followed by something else; IoError if the disk fails.
  std::size_t read(MutableBytes out);

  /// How many bytes came out so far: the offset of the next one.
  std::uint64_t offset() const { return offset_; }

  /// No more bytes than this can come out altogether: the size of a plain file, and of a gzip file what deflate can
  /// make of it at best. Lets a reader refuse a size it is told before it allocates.
  std::uint64_t most() const;

  /// The file that was opened.
  const std::filesystem::path& path() const { return path_; }

  /// `/data/x.gz, byte 16 (unpacked)`: for messages.
  std::string at(std::uint64_t offset) const;

 private:
  struct Inflater;

  bool refill();
  std::size_t read_plain(MutableBytes out);
  std::size_t read_packed(MutableBytes out);
  void next_member();
  std::uint64_t file_offset() const { return file_read_ - input_.size(); }

  std::filesystem::path path_;
  FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t file_read_ = 0;  ///< bytes taken from the file, including those still in input_
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;
  Bytes input_;                         ///< the part of buffer_ not used yet
  std::unique_ptr<Inflater> inflater_;  ///< null for a plain file
  bool ended_ = false;                  ///< the last gzip member ended
};

}  // namespace trireme::data
