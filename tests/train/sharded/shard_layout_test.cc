#include "train/sharded/shard_layout.h"

#include <gtest/gtest.h>

#include "base/numbers/lanes.h"
#include "train/sharded/shard_groups.h"

namespace trireme {
namespace {

TEST(ShardLayout, EveryElementHasOneOwner) {
  const std::vector<std::size_t> elements{1, 16, 17, 1000, 3, 4096, 31};
  for (const std::uint32_t ranks : {1u, 2u, 3u, 8u}) {
    for (const std::size_t bucket_floats : {std::size_t{1}, std::size_t{64}, std::size_t{1} << 20}) {
      const ShardLayout layout(elements, {.ranks = ranks, .bucket_floats = bucket_floats});
      std::vector<std::vector<int>> owners;
      for (const std::size_t count : elements) owners.emplace_back(count);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        std::size_t end = 0;
        for (const ShardLayout::Run& run : layout.runs(rank)) {
          EXPECT_GE(run.in_shard, end);
          end = run.in_shard + run.count;
          EXPECT_EQ(run.first % 16, 0u) << "a line of squares would be cut";
          EXPECT_EQ(run.in_bucket, layout.offset(run.parameter) + run.first);
          for (std::size_t k = 0; k < run.count; ++k) ++owners[run.parameter][run.first + k];
        }
        EXPECT_LE(end, layout.shard_floats(rank));
      }
      for (const auto& parameter : owners) EXPECT_EQ(parameter, std::vector<int>(parameter.size(), 1));
    }
  }
}

TEST(ShardLayout, SlicesOfABucketFollowEachOther) {
  const ShardLayout layout(std::vector<std::size_t>{100, 200, 300}, {.ranks = 3, .bucket_floats = 256});
  ASSERT_EQ(layout.buckets(), 2u);
  EXPECT_EQ(std::vector(layout.members(0).begin(), layout.members(0).end()), std::vector<std::uint32_t>{2});
  for (std::size_t bucket = 0; bucket < layout.buckets(); ++bucket) {
    std::size_t end = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(layout.slice(bucket, rank).first, end);
      end += layout.counts(bucket)[rank];
    }
    EXPECT_EQ(end, layout.floats(bucket));
  }
}

TEST(ShardLayout, ABucketHoldsParametersOfOneGroup) {
  const ShardLayout layout(std::vector<std::size_t>{8, 8, 8, 8},
                           {.ranks = 2, .bucket_floats = 1 << 20, .groups = {0, 0, 1, 1}});
  ASSERT_EQ(layout.buckets(), 2u);
  EXPECT_EQ(layout.bucket_of(0), layout.bucket_of(1));
  EXPECT_EQ(layout.bucket_of(2), layout.bucket_of(3));
}

TEST(ShardGroups, LanesOfAGroupAreASubtree) {
  for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 6u, 8u, 12u}) {
    for (const std::uint32_t wanted : {0u, 1u, 2u, 3u, 4u}) {
      const Lane lanes = 12;
      const ShardGroups groups = make_shard_groups(lanes, workers, wanted);
      ASSERT_EQ(groups.lanes.size(), workers);
      EXPECT_EQ(workers % groups.shards, 0u);
      EXPECT_GE(groups.shards, std::min(wanted, workers));
      for (std::uint32_t group = 0; group < groups.groups(); ++group) {
        const Lane first = groups.lanes[group * groups.shards].first;
        const Lane end = groups.lanes[(group + 1) * groups.shards - 1].end();
        EXPECT_TRUE(is_subtree(lanes, {first, end - first}));
      }
      for (const LaneRange& own : groups.lanes) EXPECT_TRUE(is_subtree(lanes, own));
      EXPECT_EQ(groups.reason.empty(), wanted == 0 || wanted == groups.shards) << groups.reason;
    }
  }
}

}  // namespace
}  // namespace trireme
