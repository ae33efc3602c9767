#include "data/sharding.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "support.h"

namespace trireme::data {
namespace {

void expect_each_item_once(const ShardPlan& plan, std::uint64_t count) {
  std::vector<int> seen(count);
  for (const Shard& shard : plan.shards) {
    for (const std::uint64_t item : shard.items()) ++seen.at(item);
  }
  EXPECT_THAT(seen, testing::Each(1)) << plan.reason;
}

std::vector<std::uint64_t> sizes(const ShardPlan& plan) {
  std::vector<std::uint64_t> result;
  for (const Shard& shard : plan.shards) result.push_back(shard.count);
  return result;
}

using Sizes = std::vector<std::uint64_t>;
using Weights = std::vector<double>;

TEST(Sharding, EachItemOnceForManySizes) {
  for (std::uint64_t count = 1; count <= 40; ++count) {
    for (std::uint64_t parts = 1; parts <= count; ++parts) {
      for (const ShardPlan& plan : {row_blocks(count, parts), column_blocks(count, parts), round_robin(count, parts)}) {
        ASSERT_EQ(plan.shards.size(), parts);
        expect_each_item_once(plan, count);
        for (const std::uint64_t size : sizes(plan)) {
          EXPECT_GE(size, count / parts);
          EXPECT_LE(size, count / parts + 1);
        }
      }
      Weights weights(parts);
      for (std::uint64_t part = 0; part < parts; ++part)
        weights[part] = std::sqrt(static_cast<double>(part * 7 % 5 + 1));
      expect_each_item_once(proportional(count, weights), count);
    }
  }
}

TEST(Sharding, BlocksAndRoundRobinCoverAllItems) {
  EXPECT_EQ(row_blocks(10, 3).shards, (std::vector<Shard>{{0, 4}, {4, 3}, {7, 3}}));
  EXPECT_EQ(round_robin(10, 3).shards, (std::vector<Shard>{{0, 4, 3}, {1, 3, 3}, {2, 3, 3}}));
  EXPECT_EQ(round_robin(10, 3).shards[1].items(), (Sizes{1, 4, 7}));
  EXPECT_THAT(column_blocks(784, 4).reason, testing::HasSubstr("784 columns to 4 parts"));
}

TEST(Sharding, ProportionsRoundToTheLargestRemainders) {
  EXPECT_EQ(sizes(proportional(60000, Weights{1, 2, 3})), (Sizes{10000, 20000, 30000}));
  EXPECT_EQ(sizes(proportional(10, Weights{1, 1, 1})), (Sizes{4, 3, 3}));
  EXPECT_EQ(sizes(proportional(10, Weights{0.1, 0.1, 0.1})), (Sizes{4, 3, 3}));
  EXPECT_EQ(sizes(proportional(4, Weights{1, 2, 3})), (Sizes{1, 1, 2}));
  EXPECT_EQ(sizes(proportional(5, Weights{0, 1, 0})), (Sizes{0, 5, 0}));
  EXPECT_EQ(sizes(proportional(10, Weights{1000, 1})), (Sizes{10, 0}));
  EXPECT_THAT(proportional(6, Weights{1, 2}).reason,
              testing::HasSubstr("6 samples to 2 parts in proportion to 1, 2: 2, 4"));
}

TEST(Sharding, ProportionsAreWithinOneOfTheQuota) {
  const Weights weights{0.3, 1.7, 2.9, 0.01, 5};
  const ShardPlan plan = proportional(1237, weights);
  for (std::size_t part = 0; part < weights.size(); ++part) {
    EXPECT_LT(std::abs(static_cast<double>(plan.shards[part].count) - 1237 * weights[part] / 9.91), 1);
  }
}

TEST(Sharding, ExtremeNumbers) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  constexpr double kLarge = std::numeric_limits<double>::max();
  constexpr double kSmall = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sizes(proportional(kMost, Weights{1, 1})), (Sizes{kMost / 2 + 1, kMost / 2}));
  EXPECT_EQ(sizes(proportional(9, Weights{kLarge, kLarge, kLarge})), (Sizes{3, 3, 3}));
  EXPECT_EQ(sizes(proportional(9, Weights{kSmall, kSmall, kSmall})), (Sizes{3, 3, 3}));
  EXPECT_EQ(sizes(proportional(9, Weights{kLarge, kSmall})), (Sizes{9, 0}));
  EXPECT_EQ(row_blocks(kMost, 2).shards[1], (Shard{kMost / 2 + 1, kMost / 2}));
  EXPECT_EQ(sizes(round_robin(kMost, 2)), (Sizes{kMost / 2 + 1, kMost / 2}));
}

TEST(Sharding, RefusesBadInput) {
  EXPECT_FAILS(row_blocks(10, 0), InvalidArgument, "10 samples", "0 parts");
  EXPECT_FAILS(row_blocks(3, 4), InvalidArgument, "3 samples to 4 parts", "at most 3");
  EXPECT_FAILS(column_blocks(3, 4), InvalidArgument, "3 columns to 4 parts");
  EXPECT_FAILS(round_robin(0, 1), InvalidArgument, "0 samples to 1 parts");
  EXPECT_FAILS(proportional(10, Weights{}), InvalidArgument, "0 parts");
  EXPECT_FAILS(proportional(1, Weights{1, 1}), InvalidArgument, "1 samples to 2 parts");
  EXPECT_FAILS(proportional(10, Weights{1, -1}), InvalidArgument, "part 1 has weight -1");
  EXPECT_FAILS(proportional(10, Weights{NAN, 1}), InvalidArgument, "part 0 has weight nan");
  EXPECT_FAILS(proportional(10, Weights{1, INFINITY}), InvalidArgument, "part 1 has weight inf");
  EXPECT_FAILS(proportional(10, Weights{0, 0}), InvalidArgument, "all 2 weights are 0");
}

}  // namespace
}  // namespace trireme::data
