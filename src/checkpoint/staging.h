#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "checkpoint/format.h"

namespace trireme::checkpoint {

/// Memory in which one part of a checkpoint is put together while training goes on: pieces one after the other, as
/// they will lie in the file. Movable; keeps its memory when it is used again. One thread at a time, but the places
/// that `add` returns may be filled by any thread until the staging is handed to a Writer.
class Staging {
 public:
  Staging() = default;
  Staging(Staging&& other) noexcept { *this = std::move(other); }
  Staging& operator=(Staging&& other) noexcept;

  /// Forgets all pieces and provides for `bytes` in all. Throws IoError if there is not so much memory.
  void reset(std::uint64_t bytes);

  /// A place for bytes `offset` to `offset + length` of `tensor`, to be filled by the caller; valid until `reset`.
  /// What it holds before that is not defined. Throws InvalidArgument beyond what `reset` provided for.
  MutableBytes add(std::string tensor, std::uint64_t offset, std::uint64_t length);

  std::span<const PieceInfo> pieces() const { return pieces_; }
  Bytes bytes() const { return {memory_.get(), used_}; }  ///< of all pieces, page-aligned

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* address) const;
  };

  std::unique_ptr<std::byte, Unmap> memory_;
  std::uint64_t capacity_ = 0;
  std::vector<PieceInfo> pieces_;
  std::uint64_t limit_ = 0;
  std::uint64_t used_ = 0;
};

}  // namespace trireme::checkpoint
