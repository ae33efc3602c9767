#include "codec/float_loops.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers/simd.h"

namespace trireme::codec {
namespace {

TRIREME_SIMD void add_loop(const float* a, const float* b, float* sum, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

TRIREME_SIMD void subtract_loop(float* values, const float* decoded, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float difference = values[i] - decoded[i];
    values[i] = magnitude_bits(difference) < kInfinityBits ? difference : 0.0f;
  }
}

TRIREME_SIMD void zero_loop(float* values, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) values[i] = magnitude_bits(values[i]) < kInfinityBits ? values[i] : 0.0f;
}

TRIREME_SIMD std::uint32_t largest_magnitude(const std::byte* floats, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, floats + i * sizeof(float), sizeof(float));
    largest = std::max(largest, magnitude_bits(value));
  }
  return largest;
}

TRIREME_SIMD void saturate_loop(const float* from, float limit, float* to, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const float below = from[i] > limit ? limit : from[i];
    const float clamped = below < -limit ? -limit : below;
    to[i] = magnitude_bits(from[i]) < kInfinityBits ? clamped : from[i];
  }
}

}  // namespace

void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) {
  TRIREME_CHECK(a.size() == sum.size() && b.size() == sum.size(), "{} + {} = {} values", a.size(), b.size(),
                sum.size());
  add_loop(a.data(), b.data(), sum.data(), sum.size());
}

void subtract_finite(std::span<float> values, std::span<const float> decoded) {
  TRIREME_CHECK(values.size() == decoded.size(), "{} - {} values", values.size(), decoded.size());
  subtract_loop(values.data(), decoded.data(), values.size());
}

void zero_unless_finite(std::span<float> values) { zero_loop(values.data(), values.size()); }

bool all_finite(Bytes floats) {
  return largest_magnitude(floats.data(), floats.size() / sizeof(float)) < kInfinityBits;
}

void saturate(std::span<const float> from, float limit, std::span<float> to) {
  TRIREME_CHECK(from.size() == to.size(), "{} values into {}", from.size(), to.size());
  saturate_loop(from.data(), limit, to.data(), to.size());
}

}  // namespace trireme::codec
