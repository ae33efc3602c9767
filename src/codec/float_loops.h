#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace trireme::codec {

// Small vectorised loops over floats. The spans of a call have the same size; an output may be one of the inputs.

/// Returns the magnitude of a float as an integer: ordered like the magnitudes, with infinity and then NaN above all.
/// Unlike max() of floats, comparing these does not depend on which operand is NaN.
[[gnu::always_inline]] inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
}
inline constexpr std::uint32_t kInfinityBits = 0x7F800000u;  ///< magnitudes from here on are not finite

/// Computes sum = a + b.
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);

/// Computes values -= decoded; a difference that is not finite becomes zero.
void subtract_finite(std::span<float> values, std::span<const float> decoded);

/// Replaces values that are not finite by zero.
void zero_unless_finite(std::span<float> values);

/// Returns whether a sequence of floats, at any alignment, holds neither NaN nor infinity.
bool all_finite(Bytes floats);

/// Computes to = from with finite values clamped to [-limit, limit]; infinities and NaN are kept.
void saturate(std::span<const float> from, float limit, std::span<float> to);

}  // namespace trireme::codec
