#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace trireme {

/// What one element of a tensor is. Bytes are little-endian everywhere.
enum class DType { kF32, kF64, kF16, kBF16, kI8, kU8, kI16, kI32, kI64, kBool };

/// Bytes of one element: 1, 2, 4 or 8.
std::size_t size_of(DType dtype);

/// The short name, as safetensors files spell it: `F32`, `BF16`, `I64`, `BOOL`, … The text lives for ever.
std::string_view name_of(DType dtype);

/// The inverse of `name_of`; nothing if no type has that name.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace trireme
