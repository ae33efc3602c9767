#include "observe/histogram.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"

namespace trireme::observe {
namespace {

TEST(Histogram, CountsEachValueOnceInItsBucket) {
  RandomStream random(3);
  std::vector<float> values;
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(static_cast<float>(std::ldexp(random.uniform() - 0.5, static_cast<int>(random.below(40)) - 20)));
    sum += values.back();
  }
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.count, 10000);
  EXPECT_NEAR(histogram.sum, sum, 1e-3);
  EXPECT_EQ(std::accumulate(histogram.counts.begin(), histogram.counts.end(), 0.0), 10000);
  ASSERT_EQ(histogram.limits.size(), histogram.counts.size());
  for (std::size_t bucket = 1; bucket < histogram.limits.size(); ++bucket) {
    double inside = 0;
    for (const float value : values)
      inside += value >= histogram.limits[bucket - 1] && value < histogram.limits[bucket];
    EXPECT_EQ(inside, histogram.counts[bucket]) << histogram.limits[bucket];
  }
}

TEST(Histogram, WhatIsNotFiniteIsCountedApart) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{nan, 1, infinity, -infinity, 0};
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.count, 2);
  EXPECT_EQ(histogram.not_finite, 3u);
  EXPECT_EQ(histogram.min, 0);
  EXPECT_EQ(histogram.max, 1);
  EXPECT_EQ(histogram_of({}).count, 0);
  EXPECT_TRUE(histogram_of({}).limits.empty());
}

}  // namespace
}  // namespace trireme::observe
