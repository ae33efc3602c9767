#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/bytes.h"

namespace trireme::data {

/// A file in a tar.
struct TarEntry {
  std::string name = {};
  std::uint64_t header = 0;  ///< offset of its first header; a long name has headers of its own
  std::uint64_t begin = 0;   ///< offset of its content
  std::uint64_t size = 0;
};

/// Walks the regular files of a tar: ustar with the extensions of POSIX (pax) and GNU for long names and sizes.
class TarReader {
 public:
  /// Returns `count` bytes from `offset` on, valid until the next call; fewer only at the end.
  using Fetch = std::function<Bytes(std::uint64_t offset, std::size_t count)>;

  /// Of a tar of `size` bytes. `at` names an offset for messages.
  TarReader(std::uint64_t size, Fetch fetch, std::function<std::string(std::uint64_t)> at)
      : size_(size), fetch_(std::move(fetch)), at_(std::move(at)) {}

  /// Moves to the next file; false at the end. Throws Corrupt with the offset if a header is damaged, or a file is
  /// longer than the tar.
  bool next(TarEntry& entry);

  /// Where the next header is; at the end, where the last file ended.
  std::uint64_t offset() const { return offset_; }

 private:
  void read_pax(std::uint64_t begin, std::uint64_t size, TarEntry& entry, bool& has_size);

  std::uint64_t size_;
  Fetch fetch_;
  std::function<std::string(std::uint64_t)> at_;
  std::uint64_t offset_ = 0;
};

}  // namespace trireme::data
