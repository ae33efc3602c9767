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

/// Memory in which one part of a checkpoint is assembled while training goes on: pieces one after the other, in file
/// order. Movable; reused together with its memory. Not thread-safe, but any thread may fill the places that `add`
/// returns until the staging is handed to a Writer.
class Staging {
 public:
  Staging() = default;
  Staging(Staging&& other) noexcept { *this = std::move(other); }
  Staging& operator=(Staging&& other) noexcept;

  /// Drops all pieces and makes room for `bytes` in total. Throws IoError if there is not enough memory.
  void reset(std::uint64_t bytes);

  /// Returns a place for bytes `offset` to `offset + length` of `tensor`, which the caller fills; valid until `reset`.
  /// Its initial content is unspecified. Throws InvalidArgument beyond the room that `reset` made.
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
