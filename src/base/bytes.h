#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace trireme {

inline constexpr std::size_t kKiB = 1u << 10;
inline constexpr std::size_t kMiB = 1u << 20;

using Bytes = std::span<const std::byte>;   ///< bytes to read
using MutableBytes = std::span<std::byte>;  ///< bytes to write

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// Reads a little-endian integer from the first bytes of `from`; the caller has checked the size. Our hosts are
/// little-endian (checked at compile time in frame.cc), so this is a plain load that ignores alignment.
template <typename T>
T load_le(Bytes from) {
  T value;
  std::memcpy(&value, from.data(), sizeof(T));
  return value;
}

template <typename T>
void store_le(MutableBytes to, T value) {
  std::memcpy(to.data(), &value, sizeof(T));
}

}  // namespace trireme
