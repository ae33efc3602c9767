#include "codec/codec.h"

#include <limits>
#include <map>

#include <gmock/gmock.h>

#include "base/hash.h"
#include "tests/codec/testing.h"

namespace trireme::codec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();

void expect_within_bound(const Spec& spec, std::span<const float> values) {
  SCOPED_TRACE(to_string(spec) + ", " + std::to_string(values.size()) + " values");
  const std::vector<float> back = round_trip(spec, values);
  ASSERT_EQ(back.size(), values.size());
  std::size_t exact = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_LE(std::fabs(static_cast<double>(values[i]) - static_cast<double>(back[i])),
              error_bound(spec, values[i], block_absmax(values, i)))
        << "value " << i << " = " << values[i] << " came back as " << back[i];
    exact += values[i] == back[i] ? 1 : 0;
  }
  if (is_sparse(spec)) {
    ASSERT_GE(exact, kept_values(spec, values.size()));
  }
}

TEST(Codec, RoundTripsToItsStatedError) {
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t size : kSizes) expect_within_bound(spec, gradient_like(size, size));
  }
}

TEST(Codec, RoundTripsTheExtremes) {
  const auto scaled = [](float factor) {
    std::vector<float> values = gradient_like(2 * kBlock + 5, 3);
    for (float& value : values) value = std::clamp(value, -1.0f, 1.0f) * factor;
    values[0] = factor;
    values[kBlock] = -factor;
    return values;
  };
  for (const Spec& spec : kAllSpecs) {
    for (const float factor :
         {0.0f, kSmallest, 100 * kSmallest, 0x1p-130f, std::numeric_limits<float>::min(), 0x1p-119f, 1e-7f, 6.1e-5f,
          65504.0f, 65519.0f, 65520.0f, 1e10f, 0x1.FEp127f, kLargest / 2, 0x1.FFFFFCp127f, kLargest}) {
      SCOPED_TRACE(factor);
      expect_within_bound(spec, scaled(factor));
    }
    expect_within_bound(spec, std::vector<float>(kBlock + 1, kLargest));
    expect_within_bound(spec, std::vector<float>(kBlock + 1, -kSmallest));
  }
}

TEST(Codec, ZerosStayZero) {
  for (const Spec& spec : kAllSpecs) {
    for (const float zero : {0.0f, -0.0f}) {
      EXPECT_THAT(round_trip(spec, std::vector<float>(1000, zero)), Each(0.0f)) << to_string(spec);
    }
  }
}

TEST(Codec, HalvesSaturateButKeepInfinity) {
  const std::vector<float> values = {65504, 65519, 1e6f, -1e6f, kLargest, -kLargest, kInfinity, -kInfinity};
  EXPECT_THAT(round_trip({.kind = Kind::kF16}, values),
              ElementsAre(65504, 65504, 65504, -65504, 65504, -65504, kInfinity, -kInfinity));
  EXPECT_THAT(round_trip({.kind = Kind::kBF16}, values),
              ElementsAre(65536, 65536, 999424, -999424, kBF16Max, -kBF16Max, kInfinity, -kInfinity));
}

TEST(Codec, Int8RoundsToTheNearestOf255) {
  // The scale is 127 / 127 = 1.
  const std::vector<float> values = {127, 1, 0.4f, 0.5f, 0.6f, 1.5f, -0.6f, -126.5f, -127, 0};
  EXPECT_THAT(round_trip({.kind = Kind::kInt8}, values), ElementsAre(127, 1, 0, 0, 1, 2, -1, -126, -127, 0));
}

TEST(Codec, OneBitDecodesToTheMeanOfEachSign) {
  const std::vector<float> values = {1, -3, 2, -5, 6};
  EXPECT_THAT(round_trip({.kind = Kind::kOneBit}, values), ElementsAre(3, -4, 3, -4, 3));
  EXPECT_THAT(round_trip({.kind = Kind::kOneBit}, std::vector<float>{-2, -4}), ElementsAre(-3, -3));
}

TEST(Codec, OneBitErrorIsAtMostThatOfASingleScale) {
  std::vector<float> values = gradient_like(kBlock, 9);
  for (float& value : values) value += 0.1f * std::fabs(value);
  double mean = 0;
  for (const float value : values) mean += std::fabs(value) / static_cast<double>(kBlock);
  double ours = 0;
  double one_scale = 0;
  const std::vector<float> back = round_trip({.kind = Kind::kOneBit}, values);
  for (std::size_t i = 0; i < kBlock; ++i) {
    ours += std::pow(static_cast<double>(values[i]) - static_cast<double>(back[i]), 2);
    one_scale += std::pow(static_cast<double>(values[i]) - std::copysign(mean, static_cast<double>(values[i])), 2);
  }
  EXPECT_LT(ours, one_scale);
}

TEST(Codec, NonFiniteValuesSurviveEncoding) {
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, kBlock + 1, std::size_t{10'007}}) {
      for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
        for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
          std::vector<float> values = gradient_like(size, 5);
          values[at] = bad;
          EXPECT_GE(count_not_finite(round_trip(spec, values)), 1) << to_string(spec) << " at " << at << " of " << size;
        }
      }
    }
  }
}

TEST(Codec, ABlockWithNanDoesNotTouchItsNeighbours) {
  std::vector<float> values = gradient_like(3 * kBlock, 5);
  values[kBlock + 17] = kNan;
  for (const Kind kind : {Kind::kInt8, Kind::kOneBit}) {
    const std::vector<float> back = round_trip({.kind = kind}, values);
    EXPECT_THAT(std::vector(back.begin() + kBlock, back.begin() + 2 * kBlock), Each(IsNan()));
    EXPECT_EQ(count_not_finite(back), kBlock);
  }
}

TEST(Codec, EncodedBytesMayLieAnywhere) {
  const std::vector<float> values = gradient_like(3 * kBlock + 11, 6);
  for (const Spec& spec : kAllSpecs) {
    const std::vector<std::byte> expected = encoded(spec, 3, values);
    const std::vector<float> expected_back = decoded(spec, 3, expected, values.size());
    for (std::size_t offset = 1; offset < 8; ++offset) {
      std::vector<std::byte> memory(expected.size() + 16, std::byte{0xAB});
      const auto out = std::span(memory).subspan(offset, expected.size());
      encode(spec, 3, values, out);
      EXPECT_TRUE(std::ranges::equal(out, expected)) << to_string(spec);
      EXPECT_EQ(decoded(spec, 3, out, values.size()), expected_back) << to_string(spec);
      EXPECT_TRUE(
          std::ranges::all_of(std::span(memory).first(offset), [](std::byte b) { return b == std::byte{0xAB}; }));
      EXPECT_TRUE(std::ranges::all_of(std::span(memory).subspan(offset + expected.size()),
                                      [](std::byte b) { return b == std::byte{0xAB}; }));
    }
  }
}

TEST(Codec, BlocksEncodedSeparatelyGiveTheSameBytes) {
  const std::vector<float> values = gradient_like(5 * kBlock + 100, 6);
  for (const Spec& spec : kAllSpecs) {
    if (is_sparse(spec)) continue;
    std::vector<std::byte> joined;
    for (const auto& [begin, count] :
         {std::pair{std::size_t{0}, kBlock}, {kBlock, 3 * kBlock}, {4 * kBlock, kBlock + 100}}) {
      const auto part = encoded(spec, 0, std::span(values).subspan(begin, count));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, encoded(spec, 0, values)) << to_string(spec);
  }
}

TEST(Codec, AddDecodedAddsWhatDecodeWrites) {
  for (const Spec& spec : kAllSpecs) {
    for (const std::size_t size : kSizes) {
      const std::vector<float> before = gradient_like(size, 7);
      const std::vector<std::byte> bytes = encoded(spec, 9, gradient_like(size, 8));
      const std::vector<float> back = decoded(spec, 9, bytes, size);
      std::vector<float> sum = before;
      add_decoded(spec, 9, bytes, sum);
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(sum[i], before[i] + back[i]) << to_string(spec) << " at " << i;
    }
  }
}

TEST(Codec, SumsOfReducibleFormsDecodeToTheSum) {
  const std::vector<float> a = gradient_like(1000, 1);
  const std::vector<float> b = gradient_like(1000, 2);
  const Spec spec{.kind = Kind::kRandomK, .ratio = 0.1};
  const std::vector<std::byte> encoded_a = encoded(spec, 77, a);
  std::vector<std::byte> sum = encoded(spec, 77, b);
  for (std::size_t i = 0; i < sum.size(); i += sizeof(float)) {
    const auto at = std::span(sum).subspan(i);
    store_le(at, load_le<float>(std::span(encoded_a).subspan(i)) + load_le<float>(at));
  }
  std::vector<float> expected = decoded(spec, 77, encoded_a, a.size());
  add_decoded(spec, 77, encoded(spec, 77, b), expected);
  EXPECT_EQ(decoded(spec, 77, sum, a.size()), expected);
}

/// The bytes are part of the protocol between machines of different kinds: they must not change by accident, nor with
/// the instruction set.
TEST(Codec, EncodedBytesAreStable) {
  std::vector<float> values(2 * kBlock + 77);
  RandomStream random(11);
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.4);  // no libm: it differs by machine
  std::map<std::string, std::uint32_t> checksums;
  for (const Spec& spec : kAllSpecs) checksums[to_string(spec)] = crc32c(encoded(spec, 5, values));
  const std::map<std::string, std::uint32_t> expected = {
      {"none", 679055335},  {"fp16", 3184187902},      {"bf16", 3041827693},        {"int8", 4071295193},
      {"1bit", 1953355577}, {"topk:0.05", 1052708805}, {"randomk:0.05", 208135705},
  };
  EXPECT_EQ(checksums, expected);
}

}  // namespace
}  // namespace trireme::codec
