#include "base/numbers/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace trireme {
namespace {

/// A 16-bit format by its definition, and the functions under test.
struct Format {
  int fraction_bits;
  int largest_exponent;  ///< of a finite number; also the bias
  float (*up)(std::uint16_t);
  std::uint16_t (*down)(float);
  void (*up_many)(std::span<const std::uint16_t>, std::span<float>);
  void (*down_many)(std::span<const float>, std::span<std::uint16_t>);

  std::uint16_t infinity() const { return static_cast<std::uint16_t>((2 * largest_exponent + 1) << fraction_bits); }

  /// The value of a finite pattern.
  double value(std::uint16_t half) const {
    const int exponent = (half & 0x7fff) >> fraction_bits;
    const int fraction = half & ((1 << fraction_bits) - 1);
    const int significand = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
    const double magnitude = std::ldexp(significand, std::max(exponent, 1) - largest_exponent - fraction_bits);
    return half & 0x8000 ? -magnitude : magnitude;
  }

  /// The nearest pattern, by the definition: double division is exact here, and nearbyint rounds ties to even.
  std::uint16_t nearest(float number) const {
    const std::uint16_t sign = std::signbit(number) ? 0x8000 : 0;
    const double magnitude = std::abs(static_cast<double>(number));
    if (std::isinf(number)) return sign | infinity();
    const int exponent = magnitude == 0 ? 1 - largest_exponent : std::max(std::ilogb(magnitude), 1 - largest_exponent);
    // Counted in steps of this binade; a carry into the next one is right as a pattern, too.
    const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, fraction_bits - exponent)));
    const int pattern = ((exponent + largest_exponent - 1) << fraction_bits) + steps;
    return sign | static_cast<std::uint16_t>(std::min<int>(pattern, infinity()));
  }
};

class Half : public ::testing::TestWithParam<Format> {
 protected:
  std::vector<float> up_many(const std::vector<std::uint16_t>& from) const {
    std::vector<float> to(from.size());
    GetParam().up_many(from, to);
    return to;
  }
  std::vector<std::uint16_t> down_many(const std::vector<float>& from) const {
    std::vector<std::uint16_t> to(from.size());
    GetParam().down_many(from, to);
    return to;
  }

  /// Checks scalar and bulk conversion of all of `numbers` (none NaN) against the definition.
  void expect_nearest(const std::vector<float>& numbers) const {
    const std::vector<std::uint16_t> many = down_many(numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(GetParam().down(numbers[i]), GetParam().nearest(numbers[i])) << std::hexfloat << numbers[i];
      ASSERT_EQ(many[i], GetParam().nearest(numbers[i])) << std::hexfloat << numbers[i];
    }
  }
};

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST_P(Half, EveryBitPatternRoundTrips) {
  const Format& format = GetParam();
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  const std::vector<float> ups = up_many(all);
  const std::vector<std::uint16_t> backs = down_many(ups);
  for (const std::uint16_t half : all) {
    const float up = format.up(half);
    ASSERT_EQ(bits_of(up), bits_of(ups[half])) << half;
    ASSERT_EQ(format.down(up), backs[half]) << half;
    const std::uint16_t magnitude = half & 0x7fff;
    ASSERT_EQ(std::signbit(up), half >= 0x8000) << half;
    if (magnitude > format.infinity()) {
      const auto quiet = static_cast<std::uint16_t>(half | 1 << (format.fraction_bits - 1));
      ASSERT_TRUE(std::isnan(up)) << half;
      ASSERT_EQ(backs[half], quiet) << half;
    } else {
      ASSERT_EQ(backs[half], half);
      if (magnitude == format.infinity()) {
        ASSERT_TRUE(std::isinf(up)) << half;
      } else {
        ASSERT_EQ(up, format.value(half)) << half;
      }
    }
  }
}

TEST_P(Half, RoundsAtEveryBoundary) {
  const Format& format = GetParam();
  std::vector<float> numbers;
  const auto with_neighbours = [&](float number) {
    for (const float sign : {1.0f, -1.0f}) {
      numbers.push_back(sign * number);
      numbers.push_back(sign * std::nextafter(number, 0.0f));
      numbers.push_back(sign * std::nextafter(number, std::numeric_limits<float>::infinity()));
    }
  };
  for (std::uint16_t half = 0; half < format.infinity(); ++half) {
    // The pattern above the largest finite one means 2^(largest_exponent + 1) here: where rounding goes to infinity.
    const double middle = (format.value(half) + format.value(half + 1)) / 2;
    with_neighbours(static_cast<float>(format.value(half)));
    with_neighbours(static_cast<float>(middle));
  }
  with_neighbours(std::numeric_limits<float>::max());
  with_neighbours(std::numeric_limits<float>::denorm_min());
  with_neighbours(std::numeric_limits<float>::min());
  with_neighbours(std::numeric_limits<float>::infinity());
  expect_nearest(numbers);
}

TEST_P(Half, RoundsRandomFloats) {
  RandomStream random(3);
  std::vector<float> numbers;
  while (numbers.size() < 1'000'000) {
    const auto bits = static_cast<std::uint32_t>(random.next());
    // Every second one in the range where F16 has something to round.
    const std::uint32_t near_one = (bits & 0x807fffffu) | ((100 + (bits >> 23) % 46) << 23);
    const float number = std::bit_cast<float>(numbers.size() % 2 == 0 ? bits : near_one);
    if (!std::isnan(number)) numbers.push_back(number);
  }
  expect_nearest(numbers);
}

TEST_P(Half, NanStaysNan) {
  const Format& format = GetParam();
  std::vector<float> nans;
  for (int bit = 0; bit < 23; ++bit) {  // a NaN whose only fraction bit does not fit must not become infinity
    nans.push_back(std::bit_cast<float>(0x7f800000u | 1u << bit));
    nans.push_back(std::bit_cast<float>(0xff800000u | 1u << bit));
  }
  nans.push_back(std::bit_cast<float>(0x7fffffffu));  // rounding would carry into the sign
  nans.push_back(std::bit_cast<float>(0xffffffffu));
  const std::vector<std::uint16_t> many = down_many(nans);
  for (std::size_t i = 0; i < nans.size(); ++i) {
    const std::uint16_t half = format.down(nans[i]);
    EXPECT_EQ(half, many[i]) << i;
    EXPECT_GT(half & 0x7fff, format.infinity()) << i;
    EXPECT_EQ(half >= 0x8000, std::signbit(nans[i])) << i;
  }
}

TEST_P(Half, ConvertsEverySizeWithoutWritingPastTheEnd) {
  for (std::size_t size = 0; size < 70; ++size) {
    std::vector<float> from(size + 1);
    for (std::size_t i = 0; i < size; ++i) from[i] = 1.0f / static_cast<float>(i + 3);
    std::vector<std::uint16_t> down(size + 1, 0xabcd);
    std::vector<float> up(size + 1, 42.0f);
    // Begins at an odd element: not aligned for vectors.
    const std::size_t skip = size > 0 ? 1 : 0;
    GetParam().down_many(std::span(from).subspan(skip, size - skip), std::span(down).subspan(skip, size - skip));
    GetParam().up_many(std::span(down).subspan(skip, size - skip), std::span(up).subspan(skip, size - skip));
    for (std::size_t i = skip; i < size; ++i) ASSERT_EQ(up[i], GetParam().up(GetParam().down(from[i])));
    EXPECT_EQ(down[size], 0xabcd);
    EXPECT_EQ(up[size], 42.0f);
  }
}

TEST(HalfDeathTest, SizesMustAgree) {
  const std::vector<float> from(3);
  std::vector<std::uint16_t> to(2);
  EXPECT_DEATH(f32_to_f16(from, to), "3 numbers to convert, room for 2");
}

INSTANTIATE_TEST_SUITE_P(F16, Half, ::testing::Values(Format{10, 15, f16_to_f32, f32_to_f16, f16_to_f32, f32_to_f16}));
INSTANTIATE_TEST_SUITE_P(BF16, Half,
                         ::testing::Values(Format{7, 127, bf16_to_f32, f32_to_bf16, bf16_to_f32, f32_to_bf16}));

}  // namespace
}  // namespace trireme
