#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace trireme::codec {

// Small vectorised loops over floats. Spans of one call have the same size; an output may be one of the inputs.

/// The magnitude of a float as an integer: ordered like the magnitudes, with infinity and then NaN above all.
/// Comparing these never depends on which operand is NaN, as max() of floats does.
[[gnu::always_inline]] inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFu;
}
inline constexpr std::uint32_t kInfinityBits = 0x7F800000u;  ///< from here on, magnitudes are not finite

/// sum = a + b.
void add(std::span<const float> a, std::span<const float> b, std::span<float> sum);

/// values -= decoded; a difference that is not finite becomes zero.
void subtract_finite(std::span<float> values, std::span<const float> decoded);

/// Replaces what is not finite by zero.
void zero_unless_finite(std::span<float> values);

/// Whether a row of floats, at any alignment, holds neither NaN nor infinity.
bool all_finite(Bytes floats);

/// to = from with finite values clamped to [-limit, limit]; infinities and NaN stay what they are.
void saturate(std::span<const float> from, float limit, std::span<float> to);

}  // namespace trireme::codec
