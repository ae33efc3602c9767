#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::data {

/// Converts `count` tokens to 32 bits and returns the largest of them; 0 if there are none. `from` need not be aligned.
/// A 32-bit token beyond what a signed one holds is returned as it is, and negative in `to`.
std::uint32_t widen(const std::byte* from, std::size_t width, std::int32_t* to, std::size_t count);

/// Returns the largest of `count` tokens of 1, 2 or 4 bytes.
std::uint32_t largest(const std::byte* from, std::size_t width, std::size_t count);

}  // namespace trireme::data
