#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <gmock/gmock.h>

namespace trireme {
namespace {

using ::testing::ElementsAre;

// The values below are promises: a change to any of them breaks reproducibility between versions.

TEST(RandomStream, IsSplitMix64) {  // reference values of the published generator for seed 1234567
  RandomStream random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317u);
  EXPECT_EQ(random.next(), 3203168211198807973u);
  EXPECT_EQ(random.next(), 9817491932198370423u);
}

TEST(RandomStream, FixedValues) {
  RandomStream random(42);
  EXPECT_EQ(random.below(1000), 741u);
  EXPECT_EQ(random.uniform(), 0x1.477f199d93378p-3);
  EXPECT_NEAR(random.normal(), -0.4508498757188601, 1e-12);
}

TEST(RandomStream, BelowStaysBelowAndReachesAll) {
  RandomStream random(7);
  std::vector<int> seen(10);
  for (int i = 0; i < 10'000; ++i) ++seen.at(random.below(10));
  for (const int count : seen) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.below(1), 0u);
}

TEST(RandomStream, BelowALargeBoundRejectsEvenly) {  // three quarters of the range: a quarter of the draws is redrawn
  RandomStream random(8);
  const std::uint64_t bound = std::uint64_t{3} << 62;
  int lower_third = 0;
  for (int i = 0; i < 9000; ++i) {
    const std::uint64_t value = random.below(bound);
    ASSERT_LT(value, bound);
    lower_third += value < bound / 3;
  }
  EXPECT_NEAR(lower_third, 3000, 200);
}

TEST(RandomStream, UniformAndNormalHaveTheRightMoments) {
  RandomStream random(9);
  double uniform_sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  const int draws = 100'000;
  for (int i = 0; i < draws; ++i) {
    const double uniform = random.uniform();
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    uniform_sum += uniform;
    const double normal = random.normal();
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  EXPECT_NEAR(uniform_sum / draws, 0.5, 0.01);
  EXPECT_NEAR(normal_sum / draws, 0, 0.02);
  EXPECT_NEAR(normal_squares / draws, 1, 0.03);
}

TEST(MixSeed, FixedValuesAndOrderMatters) {
  EXPECT_EQ(mix_seed(1, 2), 14014240770844213795u);
  EXPECT_EQ(mix_seed(1, 2, 3), 14892593832342890272u);
  EXPECT_NE(mix_seed(1, 2), mix_seed(2, 1));
  EXPECT_NE(mix_seed(0, 0, 1), mix_seed(0, 1, 0));
  std::set<std::uint64_t> seeds;
  for (std::uint64_t step = 0; step < 100; ++step) {
    for (std::uint64_t lane = 0; lane < 100; ++lane) seeds.insert(mix_seed(0, step, lane));
  }
  EXPECT_EQ(seeds.size(), 10'000u);
}

TEST(Shuffled, FixedOrder) { EXPECT_THAT(shuffled(8, 1, 2), ElementsAre(4, 7, 1, 0, 6, 3, 5, 2)); }

TEST(Shuffled, IsAPermutation) {
  for (const std::uint64_t count : {0u, 1u, 2u, 1000u}) {
    auto order = shuffled(count, 3, 4);
    std::ranges::sort(order);
    std::vector<std::uint64_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected);
  }
}

TEST(Shuffled, DependsOnSeedAndEpoch) {
  EXPECT_EQ(shuffled(100, 1, 1), shuffled(100, 1, 1));
  EXPECT_NE(shuffled(100, 1, 1), shuffled(100, 1, 2));
  EXPECT_NE(shuffled(100, 1, 1), shuffled(100, 2, 1));
}

TEST(RandomHex, HasTheLengthAskedForAndIsNotRepeated) {
  EXPECT_EQ(random_hex(32).size(), 64u);
  EXPECT_EQ(random_hex(32).find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(random_hex(32), random_hex(32));
  EXPECT_EQ(random_hex(0), "");
}

}  // namespace
}  // namespace trireme
