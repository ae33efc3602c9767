#include "tensor/buckets.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kBytes = 1u << 20;
constexpr std::size_t kFloats = kBytes / sizeof(float);

TEST(Buckets, AreFilledFromTheLastParameterOn) {
  const std::vector<std::size_t> elements{kFloats, 10, kFloats / 2, kFloats / 2};
  const Buckets buckets(elements, {.bytes = kBytes});
  ASSERT_EQ(buckets.count(), 2u);
  EXPECT_THAT(buckets.members(0), ElementsAre(3, 2));
  EXPECT_THAT(buckets.members(1), ElementsAre(1, 0));
}

TEST(Buckets, SmallModelsHaveFewBuckets) {
  const std::vector<std::size_t> elements(30, kFloats / 10);  // 3 MiB in buckets of up to 100
  EXPECT_EQ(Buckets(elements, {.bytes = 100 * kBytes}).count(), 3u);
  const std::vector<std::size_t> tiny(30, 10);
  EXPECT_EQ(Buckets(tiny, {.bytes = 100 * kBytes}).count(), 1u);
}

TEST(Buckets, HoldEachParameterOnce) {
  std::vector<std::size_t> elements(57);
  std::iota(elements.begin(), elements.end(), 1);
  const Buckets buckets(elements, {.bytes = 400});
  std::vector<std::uint32_t> all;
  for (std::size_t b = 0; b < buckets.count(); ++b) {
    all.insert(all.end(), buckets.members(b).begin(), buckets.members(b).end());
  }
  std::vector<std::uint32_t> backward(57);
  std::iota(backward.rbegin(), backward.rend(), 0);
  EXPECT_EQ(all, backward);
}

TEST(Buckets, AreCompleteWithTheirLastGradientInEveryStep) {
  const std::vector<std::size_t> elements{100, 100, 100};
  Buckets buckets(elements, {.bytes = 800});
  for (int step = 0; step < 2; ++step) {
    buckets.begin();
    buckets.add(1);
    EXPECT_FALSE(buckets.full(0) || buckets.full(1));
    buckets.add(0);
    EXPECT_FALSE(buckets.full(0));
    EXPECT_TRUE(buckets.full(1));
    buckets.add(2);
    EXPECT_TRUE(buckets.full(0));
  }
}

TEST(Buckets, CutOnesAreOfEqualSizeAndShareGradients) {
  const std::vector<std::size_t> elements{kFloats / 2, kFloats + 8, 0, kFloats / 2};
  Buckets buckets(elements, {.bytes = kBytes, .cut_unit = 512});
  ASSERT_EQ(buckets.count(), 4u);  // a third of the model each, and a rest
  EXPECT_EQ(buckets.elements(), 2 * kFloats + 8);
  for (std::size_t b = 0; b < 3; ++b) {
    EXPECT_EQ(buckets.elements(b) * sizeof(float) % 512, 0u);
    EXPECT_EQ(buckets.first(b + 1), buckets.first(b) + buckets.elements(b));
  }
  EXPECT_EQ(buckets.offset(3), 0u);
  EXPECT_EQ(buckets.offset(1), kFloats / 2);
  EXPECT_EQ(buckets.offset(0), kFloats / 2 + kFloats + 8);
  EXPECT_THAT(buckets.members(1), ElementsAre(1));
  buckets.add(1);
  EXPECT_TRUE(buckets.full(1));
  EXPECT_FALSE(buckets.full(0) || buckets.full(2));
  for (const std::size_t i : {0u, 2u, 3u}) buckets.add(i);
  for (std::size_t b = 0; b < 4; ++b) EXPECT_TRUE(buckets.full(b));
}

TEST(BucketsDeathTest, SecondGradientInAStepAborts) {
  const std::vector<std::size_t> elements{100};
  Buckets buckets(elements, {.bytes = 800});
  buckets.add(0);
  EXPECT_DEATH(buckets.add(0), "added twice");
}

}  // namespace
}  // namespace trireme
