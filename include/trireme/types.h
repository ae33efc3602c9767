#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

using Rank = std::uint32_t;  ///< position of a worker or a server among its role, from 0
using View = std::uint64_t;  ///< number of a membership of the job, from 1; 0 = not a member yet
using Step = std::uint64_t;  ///< one update of the parameters; also a worker's clock (steps it has finished)
using Lane = std::uint32_t;  ///< position of a slice of the global batch, from 0

/// A run of neighbouring lanes that is a subtree of the summation tree.
struct LaneRange {
  Lane first = 0;
  Lane count = 0;

  Lane end() const { return first + count; }
  bool operator==(const LaneRange&) const = default;
};

/// What one element of a tensor is. Bytes are little-endian everywhere.
enum class DType { kF32, kF64, kF16, kBF16, kI8, kU8, kI16, kI32, kI64, kBool };

/// Bytes of one element: 1, 2, 4 or 8.
std::size_t size_of(DType dtype);

/// The short name, as safetensors files spell it: `F32`, `BF16`, `I64`, `BOOL`, … The text lives forever.
std::string_view name_of(DType dtype);

/// The inverse of `name_of`; nullopt if no type has that name.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace trireme
