#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "base/bytes.h"

namespace trireme::checkpoint {

// The safetensors format: 8 bytes little-endian length of the header, the header as JSON
//   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
// padded with spaces, then the tensors' bytes without gaps; offsets count from the end of the header.

/// A tensor whose bytes (little-endian, row-major) someone else owns.
struct TensorView {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};  ///< empty = one scalar
  Bytes data = {};                       ///< exactly product(shape) * size_of(dtype) bytes
};

using Metadata = std::map<std::string, std::string, std::less<>>;

/// Limits that both the reader and the writer enforce; the first is the format's own.
inline constexpr std::size_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxDimensions = 64;

/// The content of a safetensors file; the views point into the bytes that were parsed.
struct SafetensorsContent {
  std::vector<TensorView> tensors = {};  ///< in the order of their bytes in the file
  Metadata metadata = {};
};

/// Returns the size of a tensor in bytes; nullopt if a dimension is negative or the product overflows 64 bits.
std::optional<std::uint64_t> byte_size(std::span<const std::int64_t> shape, DType dtype);

/// Parses a whole file already in memory. Nothing in `file` is trusted: throws Corrupt naming `origin` (the file) and
/// what was expected there. Allocates in proportion to the header, which is part of `file`; copies no tensor.
SafetensorsContent parse_safetensors(Bytes file, const std::string& origin);

/// Returns the length and header (all bytes before the first tensor's) for `tensors` in the order given; a multiple of
/// 8 bytes. Throws InvalidArgument for what a reader would reject: a duplicate name, the name `__metadata__`, text that
/// is not UTF-8, data whose size does not follow from shape and type, a header beyond kMaxHeaderBytes.
std::string encode_header(std::span<const TensorView* const> tensors, const Metadata& metadata);

}  // namespace trireme::checkpoint
