#include "data/text/token_loops.h"

#include <algorithm>
#include <cstring>

#include "base/numbers/simd.h"

namespace trireme::data {
namespace {

/// A token anywhere in memory: a plain load, whatever its alignment.
template <typename T>
T token_at(const std::byte* from, std::size_t i) {
  T token;
  std::memcpy(&token, from + i * sizeof(T), sizeof(T));
  return token;
}

}  // namespace

#define TRIREME_WIDEN(name, T)                                                                         \
  TRIREME_SIMD static std::uint32_t name(const std::byte* from, std::int32_t* to, std::size_t count) { \
    std::uint32_t most = 0;                                                                            \
    TRIREME_INDEPENDENT for (std::size_t i = 0; i < count; ++i) {                                      \
      const std::uint32_t token = token_at<T>(from, i);                                                \
      to[i] = static_cast<std::int32_t>(token);                                                        \
      most = std::max(most, token);                                                                    \
    }                                                                                                  \
    return most;                                                                                       \
  }                                                                                                    \
  TRIREME_SIMD static std::uint32_t name##_largest(const std::byte* from, std::size_t count) {         \
    T most = 0;                                                                                        \
    for (std::size_t i = 0; i < count; ++i) most = std::max(most, token_at<T>(from, i));               \
    return most;                                                                                       \
  }

TRIREME_WIDEN(widen8, std::uint8_t)
TRIREME_WIDEN(widen16, std::uint16_t)
TRIREME_WIDEN(widen32, std::uint32_t)

#undef TRIREME_WIDEN

std::uint32_t widen(const std::byte* from, std::size_t width, std::int32_t* to, std::size_t count) {
  return width == 1 ? widen8(from, to, count) : width == 2 ? widen16(from, to, count) : widen32(from, to, count);
}

std::uint32_t largest(const std::byte* from, std::size_t width, std::size_t count) {
  return width == 1   ? widen8_largest(from, count)
         : width == 2 ? widen16_largest(from, count)
                      : widen32_largest(from, count);
}

}  // namespace trireme::data
