#pragma once

#include <bit>
#include <cstdint>
#include <span>

// The two 16-bit floating-point types, as raw bits: F16 (IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits) and
// BF16 (the upper half of a float: 1, 8, 7).
//
// Widening is exact. Narrowing rounds to nearest, ties to even; values too large become infinity. A NaN stays a NaN of
// the same sign with the fraction bits that fit; converting to and from F16, or to BF16, makes it quiet. The results
// are the bits that processors with such instructions give. Everything is integer arithmetic except one addition or
// multiplication whose result is a normal float, so the results depend neither on the instruction set nor on whether
// the processor flushes subnormal floats to zero.
//
// Thread-safe.

namespace trireme {

inline float f16_to_f32(std::uint16_t half) {
  constexpr std::uint32_t kRebias = (127 - 15) << 23;
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + kRebias;
  const std::uint32_t quiet = magnitude > 0x7c00u ? 1u << 22 : 0;
  const std::uint32_t special = (normal + kRebias) | quiet;  // infinity and NaN: exponent 31 becomes 255
  // Zero and subnormals count in steps of 2^-24. Signed, because only that conversion is one instruction everywhere.
  const auto tiny = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  const std::uint32_t finite = magnitude < 0x0400u ? tiny : normal;
  return std::bit_cast<float>(sign | (magnitude < 0x7c00u ? finite : special));
}

inline std::uint16_t f32_to_f16(float value) {
  constexpr std::uint32_t kRebias = (127 - 15) << 23;
  constexpr std::uint32_t kSmallestNormal = (127 - 14) << 23;  // 2^-14
  constexpr std::uint32_t kTooLarge = (127 + 16) << 23;        // 2^16; rounding takes 65520 and above there by itself
  constexpr std::uint32_t kInfinity = 255u << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Half a step minus one, plus one if the last bit kept is odd: carries exactly when rounding goes up.
  const std::uint32_t normal = (magnitude - kRebias + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Floats in [0.5, 1) are 2^-24 apart, as subnormal halves are: the addition does the rounding.
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t special = magnitude > kInfinity ? 0x7e00u | ((magnitude >> 13) & 0x03ffu) : 0x7c00u;
  const std::uint32_t finite = magnitude < kSmallestNormal ? tiny : normal;
  return static_cast<std::uint16_t>(sign | (magnitude < kTooLarge ? finite : special));
}

inline float bf16_to_f32(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // overflows into infinity by itself
  const std::uint32_t quiet = (bits >> 16) | 0x0040u;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

/// Convert many values at once, vectorised, to the same bits as the functions above. `from` and `to` have the same size
/// and do not overlap.
void f16_to_f32(std::span<const std::uint16_t> from, std::span<float> to);
void f32_to_f16(std::span<const float> from, std::span<std::uint16_t> to);
void bf16_to_f32(std::span<const std::uint16_t> from, std::span<float> to);
void f32_to_bf16(std::span<const float> from, std::span<std::uint16_t> to);

}  // namespace trireme
