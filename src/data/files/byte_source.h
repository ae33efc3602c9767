#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "data/files/unpacker.h"

namespace trireme::data {

/// The bytes of a regular file from front to back, unpacked if the file is gzip or zstd (by its first bytes, not by
/// its name). Holds a small fixed buffer whatever the file claims. Not thread-safe.
class ByteSource {
 public:
  /// Opens `path`, or `path`.gz or `path`.zst if only that exists. Throws IoError if it is missing, unreadable or not a
  /// regular file; InvalidArgument if it is zstd and Trireme was built without it.
  explicit ByteSource(std::filesystem::path path);
  ~ByteSource();

  /// Fills `out`; returns the number of bytes read: fewer than asked only at the end. The checksum of packed data
  /// follows it, so it is checked only by reading to the end. Throws Corrupt if packed data is damaged, truncated or
  /// followed by something else; IoError if the disk fails.
  std::size_t read(MutableBytes out);

  /// Returns how many bytes were read so far: the offset of the next one.
  std::uint64_t offset() const { return offset_; }

  /// Returns an upper bound of the bytes that can come out: the size of a plain file, or the most that the format
  /// could pack into this one. Lets a reader reject a claimed size before it allocates.
  std::uint64_t most() const;

  /// Returns the path of the file that was opened.
  const std::filesystem::path& path() const { return path_; }

  /// Whether it is unpacked while it is read.
  bool packed() const { return unpacker_ != nullptr; }

  /// Returns `/data/x.gz, byte 16 (unpacked)`: for messages.
  std::string at(std::uint64_t offset) const;

 private:
  void open_packed();
  bool refill();
  std::size_t read_plain(MutableBytes out);
  std::size_t read_packed(MutableBytes out);
  void next_member();
  std::uint64_t file_offset() const { return file_read_ - input_.size(); }

  std::filesystem::path path_;
  FileDescriptor file_;
  std::uint64_t file_size_ = 0;
  std::uint64_t file_read_ = 0;  ///< bytes read from the file, including those still in input_
  std::uint64_t offset_ = 0;
  std::vector<std::byte> buffer_;
  Bytes input_;                         ///< the unused part of buffer_
  std::unique_ptr<Unpacker> unpacker_;  ///< null for a plain file
  bool ended_ = false;                  ///< the last gzip member or zstd frame ended
};

}  // namespace trireme::data
