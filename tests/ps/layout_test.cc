#include "ps/layout.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace trireme::ps {
namespace {

const std::vector<TableSpec> kTables{{"a", 100'000}, {"b", 7}, {"c", 33'333}};

TEST(Layout, BothSidesHoldEveryFloatOnceAndAligned) {
  for (const std::uint32_t servers : {1u, 2u, 5u}) {
    const Layout layout(kTables, servers, {.max_chunk_bytes = 64u << 10});
    std::vector<bool> worker(layout.worker_floats(), false);
    std::vector<std::vector<bool>> server;
    std::vector<std::uint32_t> next_index(servers, 0);
    for (Rank rank = 0; rank < servers; ++rank) server.emplace_back(layout.shard_floats(rank), false);
    for (const Layout::Chunk& chunk : layout.chunks()) {
      const ChunkPlace& place = chunk.place;
      EXPECT_EQ(chunk.worker_offset, layout.table_offset(place.table) + place.begin);
      EXPECT_EQ(chunk.worker_offset % kChunkAlignment, 0u);
      EXPECT_EQ(chunk.shard_offset % kChunkAlignment, 0u);
      EXPECT_EQ(chunk.shard_index, next_index[place.shard]++);
      for (std::uint64_t i = 0; i < place.count; ++i) {
        EXPECT_FALSE(worker.at(chunk.worker_offset + i));
        EXPECT_FALSE(server[place.shard].at(chunk.shard_offset + i));
        worker[chunk.worker_offset + i] = server[place.shard][chunk.shard_offset + i] = true;
      }
    }
    EXPECT_EQ(std::count(worker.begin(), worker.end(), true), 100'000 + 7 + 33'333);
    for (Rank rank = 0; rank < servers; ++rank) EXPECT_EQ(layout.shard_chunks(rank), next_index[rank]);
  }
}

TEST(Layout, ChunksOfATableAreOneRun) {
  const Layout layout(kTables, 2, {.max_chunk_bytes = 64u << 10});
  std::uint32_t next = 0;
  for (std::uint32_t table = 0; table < kTables.size(); ++table) {
    EXPECT_EQ(layout.first_chunk(table), next);
    EXPECT_GT(layout.chunk_count(table), 0u);
    for (std::uint32_t i = 0; i < layout.chunk_count(table); ++i) {
      EXPECT_EQ(layout.chunks()[next++].place.table, table);
    }
  }
  EXPECT_EQ(next, layout.chunks().size());
}

TEST(Layout, VersionWordsFillWholePages) {
  EXPECT_EQ(version_words_bytes(1), 4096u);
  EXPECT_EQ(version_words_bytes(512), 4096u);
  EXPECT_EQ(version_words_bytes(513), 8192u);
}

}  // namespace
}  // namespace trireme::ps
