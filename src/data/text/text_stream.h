#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/byte_source.h"

namespace trireme::data {

/// The text of several files, plain or packed, in pieces that are cut between words (words.h), so that they can be
/// encoded one by one. A single word longer than a piece is cut. Not thread-safe.
class TextStream {
 public:
  explicit TextStream(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}

  /// Returns the next piece, valid until the next call; empty at the end. Pieces do not cross files, nor go beyond
  /// `limit` bytes of all text if there are words in front of it.
  std::string_view next(std::uint64_t limit = UINT64_MAX);

  std::uint64_t offset() const { return offset_; }  ///< bytes returned so far

  /// Whether the piece returned last was its file's last.
  bool file_ended() const { return file_ended_; }

 private:
  bool refill();

  std::vector<std::filesystem::path> files_;
  std::size_t next_file_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::size_t used_ = 0;  // of the buffer: returned already
  std::uint64_t offset_ = 0;
  bool source_ended_ = true;
  bool file_ended_ = false;
};

}  // namespace trireme::data
