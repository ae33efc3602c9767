#include "base/numbers/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

std::vector<double> numbers_of_all_sizes(std::size_t count) {
  RandomStream random(7);
  std::vector<double> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>(random.below(600)) - 300;
    numbers.push_back(std::ldexp(random.uniform() - 0.5, exponent));
  }
  return numbers;
}

ExactSum sum_of(const std::vector<double>& numbers) {
  ExactSum sum;
  for (const double number : numbers) sum.add(number);
  return sum;
}

TEST(ExactSum, DoesNotRound) {
  EXPECT_EQ(sum_of({1e300, 1, -1e300}).value(), 1);
  EXPECT_EQ(sum_of({1, 1e-300, -1}).value(), 1e-300);
  EXPECT_EQ(sum_of({5e-324, 5e-324}).value(), 1e-323);
  EXPECT_EQ(sum_of({-3, 1}).value(), -2);
  EXPECT_EQ(sum_of({}).value(), 0);
  EXPECT_EQ(sum_of({1.7e308, 1.7e308, -1.7e308}).value(), 1.7e308);
  EXPECT_EQ(sum_of(std::vector<double>(1000, 0.1)).value(), 1000 * 0.1);
}

TEST(ExactSum, NoOrderAndNoDivisionChangesABit) {
  std::vector<double> numbers = numbers_of_all_sizes(1000);
  const ExactSum once = sum_of(numbers);
  std::ranges::reverse(numbers);
  EXPECT_EQ(sum_of(numbers).words(), once.words());
  ExactSum parts;
  for (std::size_t begin = 0; begin < numbers.size(); begin += 7) {
    ExactSum part;
    for (std::size_t i = begin; i < std::min(begin + 7, numbers.size()); ++i) part.add(numbers[i]);
    parts.add(ExactSum::from_words(part.words()));
  }
  EXPECT_EQ(parts.words(), once.words());
  EXPECT_EQ(parts.value(), once.value());
  for (const double number : numbers) parts.add(-number);
  EXPECT_EQ(parts.value(), 0);
}

TEST(ExactSum, WhatIsNotFiniteStaysSo) {
  ExactSum sum = sum_of({1, std::numeric_limits<double>::infinity()});
  EXPECT_TRUE(std::isnan(sum.value()));
  sum.add(sum_of({2}));
  EXPECT_TRUE(std::isnan(ExactSum::from_words(sum.words()).value()));
  ExactSum other = sum_of({2});
  other.add(sum);
  EXPECT_TRUE(std::isnan(other.value()));
}

TEST(ExactSum, WordsThatNoSumHasAreRefused) {
  std::vector<std::int64_t> words = sum_of({1}).words();
  EXPECT_FAILS(ExactSum::from_words({}), Corrupt, "0 words");
  words[3] = std::int64_t{1} << 32;
  EXPECT_FAILS(ExactSum::from_words(words), Corrupt, "word 3");
  words[3] = -1;
  EXPECT_FAILS(ExactSum::from_words(words), Corrupt, "word 3");
}

TEST(Squares, DoNotDependOnCutsAtMultiplesOfSixteen) {
  RandomStream random(3);
  std::vector<float> values(10007);
  for (float& value : values) value = static_cast<float>(random.normal());
  ExactSum whole;
  add_squares(values, whole);
  double plain = 0;
  for (const float value : values) plain += static_cast<double>(value) * value;
  EXPECT_NEAR(whole.value(), plain, 1e-9 * plain);
  for (const std::size_t cut : {16u, 1600u, 4096u, 9984u}) {
    ExactSum parts;
    add_squares(std::span(values).subspan(cut), parts);
    add_squares(std::span(values).first(cut), parts);
    EXPECT_EQ(parts.words(), whole.words()) << cut;
  }
}

}  // namespace
}  // namespace trireme
