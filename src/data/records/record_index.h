#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "data/files/random_access_file.h"

namespace trireme::data {

/// Where the samples of a file begin, in order, and where the last one ends: one more than there are samples.
using Offsets = std::vector<std::uint64_t>;

/// Returns the offsets that `NAME.index` beside `file` holds; if that is missing, damaged, of another kind, or of a
/// file of another size or time of change, those that `scan` finds, and then writes it. A file that cannot be written
/// is a warning: the next one to come scans again. A packed file is always scanned.
Offsets load_index(const RandomAccessFile& file, std::string_view kind, const std::function<Offsets()>& scan);

/// Reads a file from front to back in pieces, for scans that look at a few bytes here and there. Not thread-safe.
class ScanBuffer {
 public:
  explicit ScanBuffer(const RandomAccessFile& file) : file_(file) {}

  /// Returns `count` bytes from `offset` on, valid until the next call; fewer at the end of the file.
  Bytes at(std::uint64_t offset, std::size_t count);

 private:
  const RandomAccessFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;  // of what the buffer holds
};

}  // namespace trireme::data
