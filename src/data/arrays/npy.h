#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "base/bytes.h"

namespace trireme::data {

/// What the header of an array in NumPy's format says.
struct NpyHeader {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};
  std::uint64_t begin = 0;  ///< offset of the values
};

constexpr std::size_t kMostNpyHeader = 64 * 1024 + 12;  ///< bytes of a header; a longer one is refused

/// Reads the header of an array that takes `size` bytes in all, of which `front` are the first: kMostNpyHeader of them,
/// or all. Throws Corrupt, beginning with `where`, if it is malformed, of a kind that is not read, or the values it
/// announces are not just what follows.
NpyHeader parse_npy(Bytes front, std::uint64_t size, const std::string& where);

}  // namespace trireme::data
