#pragma once

#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/file.h"

namespace trireme::net {

/// Memory that several processes of one host map: a memfd. It has no name in any file system, so nothing is left
/// behind when every process that maps it is killed.
class Segment {
 public:
  /// New, zeroed, of `bytes` (rounded up to pages). Its size is sealed: no peer can shrink it under us.
  static std::shared_ptr<Segment> create(const std::string& name, std::size_t bytes);

  enum class Access { kRead, kReadWrite };

  /// Maps a peer's segment. Throws InvalidArgument if it is not a memfd with sealed size, or not of `bytes`.
  static std::shared_ptr<Segment> map(FileDescriptor descriptor, std::size_t bytes, Access access);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// Asks the kernel to back this mapping with pages of 2 MiB, where it can: large arrays are read faster. Every
  /// process asks for its own mapping. Takes memory for all of the segment.
  void use_large_pages() const;

  /// From now on only this process's mapping can be written; peers that map it later can only read.
  void seal_writes();

  MutableBytes bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }

 private:
  Segment(FileDescriptor descriptor, MutableBytes bytes) : descriptor_(std::move(descriptor)), bytes_(bytes) {}

  FileDescriptor descriptor_;
  MutableBytes bytes_;
};

}  // namespace trireme::net
