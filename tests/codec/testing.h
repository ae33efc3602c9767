#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "codec/codec.h"

namespace trireme::codec {

inline const std::array kAllSpecs = {Spec{.kind = Kind::kNone},
                                     Spec{.kind = Kind::kF16},
                                     Spec{.kind = Kind::kBF16},
                                     Spec{.kind = Kind::kInt8},
                                     Spec{.kind = Kind::kOneBit},
                                     Spec{.kind = Kind::kTopK, .ratio = 0.05},
                                     Spec{.kind = Kind::kRandomK, .ratio = 0.05}};

/// Nothing, little, odd numbers, blocks and groups of the loops with one more or less, and many.
inline constexpr std::array<std::size_t, 15> kSizes = {
    0, 1, 2, 7, 31, 33, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 1023, 1025, 2049, 10'007, 100'003};

/// Normal numbers of very different sizes, as the layers of a network have them.
inline std::vector<float> gradient_like(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random.normal() * std::pow(10.0, static_cast<double>(i / 300 % 6) - 4));
  }
  return values;
}

inline std::vector<std::byte> encoded(const Spec& spec, std::uint64_t key, std::span<const float> values) {
  std::vector<std::byte> bytes(encoded_bytes(spec, values.size()));
  encode(spec, key, values, bytes);
  return bytes;
}

inline std::vector<float> decoded(const Spec& spec, std::uint64_t key, Bytes bytes, std::size_t count) {
  std::vector<float> values(count, 12345.0f);  // must not shine through
  decode(spec, key, bytes, values);
  return values;
}

inline std::vector<float> round_trip(const Spec& spec, std::span<const float> values, std::uint64_t key = 1) {
  return decoded(spec, key, encoded(spec, key, values), values.size());
}

/// The largest magnitude in the block of value `i`.
inline float block_absmax(std::span<const float> values, std::size_t i) {
  const std::size_t begin = i / kBlock * kBlock;
  float largest = 0;
  for (const float value : values.subspan(begin, std::min(kBlock, values.size() - begin))) {
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

inline std::size_t count_not_finite(std::span<const float> values) {
  return static_cast<std::size_t>(std::ranges::count_if(values, [](float value) { return !std::isfinite(value); }));
}

}  // namespace trireme::codec
