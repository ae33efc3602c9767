#include "ps/placement.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"

namespace trireme::ps {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<TableSpec> tables_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<TableSpec> tables;
  for (const std::uint64_t elements : sizes) tables.push_back({fmt::format("t{}", tables.size()), elements});
  return tables;
}

const std::vector<std::uint64_t> kLeNet = {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};  // 61,706 parameters

std::uint64_t largest_chunk(const std::vector<ChunkPlace>& places) {
  return std::ranges::max_element(places, {}, &ChunkPlace::count)->count;
}

std::uint64_t imbalance(const std::vector<ChunkPlace>& places, std::uint32_t servers) {
  const auto loads = shard_loads(places, servers);
  const auto [least, most] = std::ranges::minmax_element(loads);
  return *most - *least;
}

/// Sorted, aligned, not too large, and every element covered once.
void expect_whole(const std::vector<ChunkPlace>& places, const std::vector<TableSpec>& tables, std::uint32_t servers,
                  std::size_t max_chunk_bytes) {
  std::size_t next = 0;
  for (std::uint32_t table = 0; table < tables.size(); ++table) {
    std::uint64_t covered = 0;
    for (; next < places.size() && places[next].table == table; ++next) {
      EXPECT_EQ(places[next].begin, covered);
      EXPECT_EQ(places[next].begin % kChunkAlignment, 0u);
      EXPECT_GT(places[next].count, 0u);
      EXPECT_LE(places[next].count * sizeof(float), max_chunk_bytes);
      EXPECT_LT(places[next].shard, servers);
      covered = places[next].end();
    }
    EXPECT_EQ(covered, tables[table].elements) << tables[table].name;
  }
  EXPECT_EQ(next, places.size());
}

TEST(Placement, LeNetIsBalancedByLessThanAChunk) {
  const auto tables = tables_of(kLeNet);
  for (std::uint32_t servers = 1; servers <= 16; ++servers) {
    const auto places = place(tables, servers);
    expect_whole(places, tables, servers, 1 << 20);
    EXPECT_LT(imbalance(places, servers), largest_chunk(places)) << servers << " servers";
  }
}

TEST(Placement, LeNetHasNoTinyChunks) {
  const auto tables = tables_of(kLeNet);
  for (const std::uint32_t servers : {2u, 4u, 8u}) {
    for (const ChunkPlace& chunk : place(tables, servers)) {
      if (chunk.count < tables[chunk.table].elements) {
        EXPECT_GE(chunk.count * sizeof(float), 4096 - 64u) << tables[chunk.table].name;
      }
    }
  }
}

TEST(Placement, AHundredMebibytesInChunksOfOne) {
  const auto tables = tables_of({100 * (1 << 20) / sizeof(float)});
  for (std::uint32_t servers = 1; servers <= 9; ++servers) {
    const auto places = place(tables, servers);
    expect_whole(places, tables, servers, 1 << 20);
    EXPECT_GE(places.size(), 100u);
    EXPECT_LT(places.size(), 100u + servers);
    EXPECT_LE(imbalance(places, servers), servers * kChunkAlignment) << servers << " servers";
  }
}

TEST(Placement, RandomShapesAreBalancedByLessThanAChunk) {
  RandomStream random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> sizes(1 + random.below(40));
    for (std::uint64_t& size : sizes) size = 1 + random.below(std::uint64_t{1} << (4 + random.below(18)));
    sizes.push_back(1'000 + random.below(1'000'000));
    const auto tables = tables_of(sizes);
    const auto servers = static_cast<std::uint32_t>(1 + random.below(6));
    const std::size_t max_bytes = std::size_t{1} << (14 + random.below(7));
    const auto places = place(tables, servers, {.max_chunk_bytes = max_bytes});
    expect_whole(places, tables, servers, max_bytes);
    EXPECT_LT(imbalance(places, servers), largest_chunk(places)) << "round " << round << ", " << servers << " servers";
  }
}

TEST(Placement, EqualTensorsAreSplitUntilBalanced) {
  const auto places = place(tables_of({1024, 1024, 1024}), 2);
  EXPECT_EQ(imbalance(places, 2), 0u);
  EXPECT_EQ(places.size(), 6u);
}

TEST(Placement, SmallModelsAreBalancedByLessThanAChunk) {
  RandomStream random(2);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> sizes(1 + random.below(10));
    for (std::uint64_t& size : sizes) size = 1 + random.below(500);
    const auto tables = tables_of(sizes);
    const auto servers = static_cast<std::uint32_t>(1 + random.below(16));
    const auto places = place(tables, servers);
    expect_whole(places, tables, servers, 1 << 20);
    EXPECT_LE(imbalance(places, servers), largest_chunk(places));
  }
}

TEST(Placement, ALargeTableIsSpreadOverAllServers) {
  std::set<std::uint32_t> servers;
  for (const ChunkPlace& chunk : place(tables_of(kLeNet), 4)) {
    if (chunk.table == 4) servers.insert(chunk.shard);
  }
  EXPECT_EQ(servers.size(), 4u);
}

TEST(Placement, IsDeterministic) { EXPECT_EQ(place(tables_of(kLeNet), 3), place(tables_of(kLeNet), 3)); }

TEST(Placement, TheSmallestChunkAllowedIsOneCacheLine) {
  const auto tables = tables_of({100, 7});
  const auto places = place(tables, 2, {.max_chunk_bytes = 64});
  expect_whole(places, tables, 2, 64);
}

TEST(Placement, RefusesInvalidArguments) {
  const auto tables = tables_of({100});
  EXPECT_THAT([&] { place(tables, 0); }, ThrowsMessage<InvalidArgument>(HasSubstr("0 shards")));
  EXPECT_THAT([&] { place({}, 1); }, ThrowsMessage<InvalidArgument>(HasSubstr("no table")));
  EXPECT_THAT([&] { place({{"fc1.bias", 0}}, 1); }, ThrowsMessage<InvalidArgument>(HasSubstr("'fc1.bias'")));
  EXPECT_THAT([&] { place(tables, 1, {.max_chunk_bytes = 63}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("max_chunk_bytes is 63")));
}

}  // namespace
}  // namespace trireme::ps
