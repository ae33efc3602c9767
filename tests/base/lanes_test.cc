#include "base/numbers/lanes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<Lane> shares(Lane lanes, std::uint32_t workers) {
  std::vector<Lane> counts;
  for (const LaneRange& range : deal_lanes(lanes, workers)) counts.push_back(range.count);
  return counts;
}

TEST(Lanes, LeftChildIsTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(left_lanes(2), 1u);
  EXPECT_EQ(left_lanes(3), 2u);
  EXPECT_EQ(left_lanes(4), 2u);
  EXPECT_EQ(left_lanes(5), 4u);
  EXPECT_EQ(left_lanes(8), 4u);
  EXPECT_EQ(left_lanes(9), 8u);
}

TEST(Lanes, SubtreesOfSix) {  // (0 1 | 2 3) | (4 5)
  EXPECT_TRUE(is_subtree(6, {0, 6}));
  EXPECT_TRUE(is_subtree(6, {0, 4}));
  EXPECT_TRUE(is_subtree(6, {2, 2}));
  EXPECT_TRUE(is_subtree(6, {4, 2}));
  EXPECT_TRUE(is_subtree(6, {5, 1}));
  EXPECT_FALSE(is_subtree(6, {1, 2}));
  EXPECT_FALSE(is_subtree(6, {2, 4}));
  EXPECT_FALSE(is_subtree(6, {0, 3}));
  EXPECT_FALSE(is_subtree(6, {0, 0}));
  EXPECT_FALSE(is_subtree(6, {5, 2}));
  EXPECT_FALSE(is_subtree(6, {4'294'967'295u, 2}));  // first + count would wrap
}

TEST(DealLanes, Examples) {
  EXPECT_THAT(shares(8, 1), ElementsAre(8));
  EXPECT_THAT(shares(8, 2), ElementsAre(4, 4));
  EXPECT_THAT(shares(8, 3), ElementsAre(4, 2, 2));
  EXPECT_THAT(shares(8, 5), ElementsAre(2, 2, 2, 1, 1));
  EXPECT_THAT(shares(6, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(shares(7, 2), ElementsAre(4, 3));
  EXPECT_THAT(shares(5, 5), ElementsAre(1, 1, 1, 1, 1));
}

/// The smallest possible largest share, by trying every split of the workers between the children.
Lane best_largest_share(Lane lanes, std::uint32_t workers) {
  if (workers == 1) return lanes;
  const Lane left = left_lanes(lanes);
  const Lane right = lanes - left;
  Lane best = lanes;
  for (std::uint32_t to_left = 1; to_left < workers; ++to_left) {
    if (to_left > left || workers - to_left > right) continue;
    best = std::min(best, std::max(best_largest_share(left, to_left), best_largest_share(right, workers - to_left)));
  }
  return best;
}

TEST(DealLanes, GivesEachWorkerOneSubtreeAsEvenlyAsPossible) {
  for (Lane lanes = 1; lanes <= 70; ++lanes) {
    for (std::uint32_t workers = 1; workers <= lanes; ++workers) {
      const auto dealt = deal_lanes(lanes, workers);
      ASSERT_EQ(dealt.size(), workers);
      Lane next = 0;
      Lane largest = 0;
      for (const LaneRange& range : dealt) {
        ASSERT_EQ(range.first, next);
        ASSERT_TRUE(is_subtree(lanes, range)) << range.first << "+" << range.count << " of " << lanes;
        next = range.end();
        largest = std::max(largest, range.count);
      }
      ASSERT_EQ(next, lanes);
      ASSERT_LT(largest * workers, 2 * lanes);  // the bound that the header promises
      if (lanes <= 20) {
        ASSERT_EQ(largest, best_largest_share(lanes, workers)) << lanes << " on " << workers;
      }
    }
  }
}

TEST(DealLanes, RefusesInvalidArguments) {
  EXPECT_THAT([] { deal_lanes(4, 0); }, ThrowsMessage<InvalidArgument>(HasSubstr("4 lanes")));
  EXPECT_THAT([] { deal_lanes(4, 5); }, ThrowsMessage<InvalidArgument>(HasSubstr("5 workers")));
}

TEST(LaneSamples, ContiguousAndEven) {
  EXPECT_EQ(lane_samples(10, 4, 0), (SampleRange{0, 3}));
  EXPECT_EQ(lane_samples(10, 4, 1), (SampleRange{3, 3}));
  EXPECT_EQ(lane_samples(10, 4, 2), (SampleRange{6, 2}));
  EXPECT_EQ(lane_samples(10, 4, 3), (SampleRange{8, 2}));
  EXPECT_EQ(lane_samples(2, 4, 3), (SampleRange{2, 0}));
  EXPECT_EQ(lane_samples(0, 4, 0), (SampleRange{0, 0}));
}

/// Lanes of random gradients whose sum depends on the order.
class TreeSum : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 2500;  // more than two blocks, and no multiple of a vector

  void fill(Lane lanes) {
    RandomStream random(lanes);
    values_.assign(lanes, std::vector<float>(kCount));
    for (auto& lane : values_) {
      for (float& value : lane) value = static_cast<float>(random.normal() * std::exp(5 * random.normal()));
    }
  }

  /// The definition: one element, recursively, absent lanes skipped.
  std::optional<float> element(LaneRange node, const std::vector<bool>& present, std::size_t index) const {
    if (node.count == 1) return present[node.first] ? std::optional(values_[node.first][index]) : std::nullopt;
    const Lane left_count = left_lanes(node.count);
    const auto left = element({node.first, left_count}, present, index);
    const auto right = element({node.first + left_count, node.count - left_count}, present, index);
    if (left && right) return *left + *right;
    return left ? left : right;
  }

  std::vector<float> defined(LaneRange node, const std::vector<bool>& present) const {
    std::vector<float> sum(kCount);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] = element(node, present, i).value();
    return sum;
  }

  static void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i])) << "element " << i;
    }
  }

  std::vector<std::vector<float>> values_;
};

TEST_F(TreeSum, DoesNotDependOnTheNumberOfWorkers) {
  for (Lane lanes = 1; lanes <= 17; ++lanes) {
    fill(lanes);
    const std::vector<bool> all(lanes, true);
    const std::vector<float> expected = defined({0, lanes}, all);
    for (std::uint32_t workers = 1; workers <= lanes; ++workers) {
      std::vector<std::vector<float>> sums;
      std::vector<Partial> partials;
      for (const LaneRange& range : deal_lanes(lanes, workers)) sums.push_back(defined(range, all));
      for (const LaneRange& range : deal_lanes(lanes, workers))
        partials.push_back({range, sums[partials.size()].data()});
      std::vector<float> out(kCount);
      tree_sum(lanes, partials, 0, out);
      expect_same_bits(out, expected);
    }
  }
}

TEST_F(TreeSum, TestValuesAreSensitiveToTheOrder) {  // else the test above would prove nothing
  fill(8);
  std::vector<float> in_order(kCount);
  for (const auto& lane : values_) {
    for (std::size_t i = 0; i < kCount; ++i) in_order[i] += lane[i];
  }
  EXPECT_NE(in_order, defined({0, 8}, std::vector<bool>(8, true)));
}

TEST_F(TreeSum, MissingLanesAreSkipped) {
  const Lane lanes = 7;
  fill(lanes);
  for (unsigned mask = 1; mask < (1u << lanes); ++mask) {
    std::vector<bool> present(lanes);
    std::vector<Partial> partials;
    for (Lane lane = 0; lane < lanes; ++lane) {
      present[lane] = (mask >> lane) & 1;
      if (present[lane]) partials.push_back({{lane, 1}, values_[lane].data()});
    }
    std::vector<float> out(kCount);
    tree_sum(lanes, partials, 0, out);
    expect_same_bits(out, defined({0, lanes}, present));
  }
}

TEST_F(TreeSum, AbsentLaneAddsNoZero) {
  const std::vector<float> minus_zero = {-0.0f};
  const std::vector<Partial> partials = {{{2, 1}, minus_zero.data()}};
  std::vector<float> out = {1};
  tree_sum(4, partials, 0, out);
  EXPECT_TRUE(std::signbit(out[0]));
}

TEST_F(TreeSum, BlocksGiveTheSameBitsAsTheWhole) {
  const Lane lanes = 9;
  fill(lanes);
  std::vector<Partial> partials;
  for (Lane lane = 0; lane < lanes; ++lane) partials.push_back({{lane, 1}, values_[lane].data()});
  std::vector<float> whole(kCount);
  std::vector<float> blocks(kCount);
  tree_sum(lanes, partials, 0, whole);
  for (std::size_t begin = 0; begin < kCount; begin += 100) {
    tree_sum(lanes, partials, begin, std::span(blocks).subspan(begin, 100));
  }
  expect_same_bits(whole, blocks);
}

TEST_F(TreeSum, ManyLanes) {
  const Lane lanes = 1000;
  const std::vector<float> ones(3, 1.0f);
  std::vector<Partial> partials;
  for (Lane lane = 0; lane < lanes; ++lane) partials.push_back({{lane, 1}, ones.data()});
  std::vector<float> out(3);
  tree_sum(lanes, partials, 0, out);
  EXPECT_THAT(out, ElementsAre(1000, 1000, 1000));
}

TEST(TreeSumDeathTest, InvalidPartialSumsAbort) {
  const std::vector<float> values(4);
  const std::vector<Partial> crossing = {{{0, 1}, values.data()}, {{1, 2}, values.data()}, {{3, 1}, values.data()}};
  std::vector<float> out(4);
  EXPECT_DEATH(tree_sum(4, crossing, 0, out), "crosses lane 2");
  EXPECT_DEATH(tree_sum(4, {}, 0, out), "0 partial sums");
}

double longest(const std::vector<LaneRange>& dealt, const std::vector<double>& costs) {
  double time = 0;
  for (std::size_t i = 0; i < dealt.size(); ++i) time = std::max(time, dealt[i].count * costs[i]);
  return time;
}

/// All ways to deal a node to neighbouring workers, the slow way.
void try_all(LaneRange node, std::size_t workers, std::vector<LaneRange>& so_far,
             const std::function<void(const std::vector<LaneRange>&)>& found) {
  if (workers == 1) {
    so_far.push_back(node);
    found(so_far);
    so_far.pop_back();
    return;
  }
  if (node.count < 2) return;
  const LaneRange left{node.first, left_lanes(node.count)};
  const LaneRange right{left.end(), node.count - left.count};
  for (std::size_t cut = 1; cut < workers; ++cut) {
    std::vector<LaneRange> none;
    try_all(left, cut, none, [&](const std::vector<LaneRange>& lefts) {
      std::vector<LaneRange> all = so_far;
      all.insert(all.end(), lefts.begin(), lefts.end());
      try_all(right, workers - cut, all, found);
    });
  }
}

TEST(DealLanes, ByCostMinimisesTheLongestShare) {
  RandomStream random(5);
  for (int round = 0; round < 300; ++round) {
    const auto lanes = static_cast<Lane>(1 + random.below(12));
    const std::size_t workers = 1 + random.below(std::min<std::uint64_t>(lanes, 5));
    std::vector<double> costs;
    for (std::size_t i = 0; i < workers; ++i) costs.push_back(1.0 + static_cast<double>(random.below(10)));
    const auto dealt = deal_lanes(lanes, costs);
    ASSERT_EQ(dealt.size(), workers);
    Lane next = 0;
    for (const LaneRange& range : dealt) {
      EXPECT_EQ(range.first, next);
      EXPECT_TRUE(is_subtree(lanes, range));
      next = range.end();
    }
    EXPECT_EQ(next, lanes);
    double best = std::numeric_limits<double>::infinity();
    std::vector<LaneRange> none;
    try_all({0, lanes}, workers, none, [&](const auto& other) { best = std::min(best, longest(other, costs)); });
    EXPECT_DOUBLE_EQ(longest(dealt, costs), best);
  }
}

TEST(DealLanes, ByEqualCostIsEven) {
  for (const std::uint32_t workers : {1u, 3u, 5u, 8u}) {
    EXPECT_EQ(deal_lanes(8, std::vector<double>(workers, 2.5)), deal_lanes(8, workers));
  }
  EXPECT_EQ(deal_lanes(1000, std::vector<double>{1, 9}), deal_lanes(1000, 2)) << "too many to try";
  EXPECT_FAILS(deal_lanes(4, std::vector<double>{1, 0}), InvalidArgument, "cost");
  EXPECT_FAILS(deal_lanes(1, std::vector<double>{1, 1}), InvalidArgument, "1 lanes");
}

}  // namespace
}  // namespace trireme
