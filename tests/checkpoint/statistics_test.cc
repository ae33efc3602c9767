#include "checkpoint/statistics.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/numbers/half.h"

namespace trireme::checkpoint {
namespace {

template <typename T>
Bytes bytes_in(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

TEST(Statistics, OfEveryType) {
  const auto check = [](DType dtype, Bytes bytes) {
    const TensorStatistics result = statistics(dtype, bytes);
    EXPECT_EQ(result.elements, 2u) << name_of(dtype);
    EXPECT_EQ(result.min, 0) << name_of(dtype);
    EXPECT_EQ(result.max, 1) << name_of(dtype);
    EXPECT_EQ(result.mean, 0.5) << name_of(dtype);
    EXPECT_EQ(result.norm, 1) << name_of(dtype);
  };
  check(DType::kF32, bytes_in(std::vector<float>{0, 1}));
  check(DType::kF64, bytes_in(std::vector<double>{0, 1}));
  check(DType::kF16, bytes_in(std::vector<std::uint16_t>{0, f32_to_f16(1)}));
  check(DType::kBF16, bytes_in(std::vector<std::uint16_t>{0, f32_to_bf16(1)}));
  check(DType::kI8, bytes_in(std::vector<std::int8_t>{0, 1}));
  check(DType::kU8, bytes_in(std::vector<std::uint8_t>{0, 1}));
  check(DType::kBool, bytes_in(std::vector<std::uint8_t>{0, 1}));
  check(DType::kI16, bytes_in(std::vector<std::int16_t>{0, 1}));
  check(DType::kI32, bytes_in(std::vector<std::int32_t>{0, 1}));
  check(DType::kI64, bytes_in(std::vector<std::int64_t>{0, 1}));
}

TEST(Statistics, CountNonFiniteValues) {
  const std::vector<float> values = {-3, std::nanf(""), 4, std::numeric_limits<float>::infinity()};
  const TensorStatistics result = statistics(DType::kF32, bytes_in(values));
  EXPECT_EQ(result.not_finite, 2u);
  EXPECT_EQ(result.min, -3);
  EXPECT_EQ(result.norm, 5);
  EXPECT_EQ(statistics(DType::kF32, {}).mean, 0);
}

TEST(Difference, ComparesBitsAndMeasuresValues) {
  const std::vector<float> a = {1, 0, std::nanf(""), 2};
  EXPECT_EQ(difference(DType::kF32, bytes_in(a), bytes_in(a)).differing, 0u);
  const std::vector<float> b = {1.5, -0.0f, std::nanf(""), 2};
  EXPECT_EQ(difference(DType::kF32, bytes_in(a), bytes_in(b)).differing, 2u);
  EXPECT_EQ(difference(DType::kF32, bytes_in(a), bytes_in(b)).largest, 0.5);
  const std::vector<float> c = {1, 0, 7, 2};
  EXPECT_EQ(difference(DType::kF32, bytes_in(a), bytes_in(c)).largest, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace trireme::checkpoint
