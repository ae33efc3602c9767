#include "cluster/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::uint32_t> slots(const std::vector<Straggler>& stragglers) {
  std::vector<std::uint32_t> all;
  for (const Straggler& straggler : stragglers) all.push_back(straggler.slot);
  return all;
}

TEST(Stragglers, AreThoseThatTakeMuchLongerThanTheMedian) {
  const std::vector<LanePace> paces{{0, 1.0}, {1, 1.1}, {2, 3.3}, {3, 0.9}};
  const auto found = find_stragglers(paces, {});
  ASSERT_THAT(slots(found), ElementsAre(2));
  EXPECT_NEAR(found[0].factor, 3.3, 1e-9);
  EXPECT_THAT(describe(found), HasSubstr("worker 2 (3.3 times"));
}

TEST(Stragglers, SlowerOfTwoWorkersIsOne) {
  EXPECT_THAT(slots(find_stragglers(std::vector<LanePace>{{0, 10}, {5, 2}}, {})), ElementsAre(0));
  EXPECT_THAT(find_stragglers(std::vector<LanePace>{{0, 10}, {1, 0}}, {}), IsEmpty()) << "nothing to compare with";
  EXPECT_THAT(find_stragglers(std::vector<LanePace>{{0, 10}}, {}), IsEmpty());
  EXPECT_THAT(find_stragglers({}, {}), IsEmpty());
}

TEST(Stragglers, KnownStragglersStayDownToALowerFactor) {
  const std::vector<LanePace> paces{{0, 1.0}, {1, 1.4}};
  EXPECT_THAT(find_stragglers(paces, {}), IsEmpty());
  EXPECT_THAT(slots(find_stragglers(paces, std::vector<Straggler>{{1, 2.0}})), ElementsAre(1));
  EXPECT_THAT(find_stragglers(std::vector<LanePace>{{0, 1.0}, {1, 1.2}}, std::vector<Straggler>{{1, 2.0}}), IsEmpty());
}

TEST(Balance, MovesLanesOnlyIfItShortensAStepEnough) {
  const auto even = deal_lanes(16, 4);
  EXPECT_THAT(better_costs(16, even, std::vector<double>{1, 1, 1.05, 1}), IsEmpty());
  const std::vector<double> slow{1, 6, 1, 1};
  const auto costs = better_costs(16, even, slow);
  ASSERT_EQ(costs, slow);
  EXPECT_THAT(better_costs(16, deal_lanes(16, costs), slow), IsEmpty()) << "it is done";
  EXPECT_THAT(better_costs(16, even, std::vector<double>{1, 6, 0, 1}), IsEmpty()) << "one is not known";
  EXPECT_THAT(better_costs(2, deal_lanes(2, 2), std::vector<double>{1, 9}), IsEmpty()) << "nothing to give away";
}

}  // namespace
}  // namespace trireme::cluster
