#include "ps/placement.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace trireme::ps {
namespace {

// Sizes in units of kChunkAlignment floats. Chunks are at least half as large as the size aimed at, hence the twos.
constexpr std::uint64_t kUnitBytes = kChunkAlignment * sizeof(float);
constexpr std::uint64_t kSmallUsual = 2 * 4096 / kUnitBytes;       ///< smallest aim, normally
constexpr std::uint64_t kSmallForBalance = 2 * 1024 / kUnitBytes;  ///< and where the balance asks for it
constexpr std::uint64_t kChunksPerShard = 2;
constexpr std::uint64_t kShardBytes = 64 << 10;  ///< shards much smaller than that only cost time

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::uint64_t units_of(const TableSpec& table) { return divide_up(table.elements, kChunkAlignment); }

void check(const std::vector<TableSpec>& tables, std::uint32_t shards, const PlacementOptions& options) {
  if (shards == 0) fail<InvalidArgument>("parameters cannot be placed on 0 shards");
  if (tables.empty()) fail<InvalidArgument>("there is no table to place: the model has no parameters");
  for (const TableSpec& table : tables) {
    if (table.elements == 0) fail<InvalidArgument>("table '{}' has no elements: leave it out", table.name);
  }
  if (options.max_chunk_bytes < kUnitBytes) {
    fail<InvalidArgument>("max_chunk_bytes is {}, but must be at least {}", options.max_chunk_bytes, kUnitBytes);
  }
}

/// Into how many chunks of at most `aim` units a table is cut. A multiple of `shards` spreads the table evenly by
/// itself; taken unless its chunks would be smaller than half the aim.
std::uint64_t pieces_of(std::uint64_t units, std::uint64_t aim, std::uint32_t shards) {
  const std::uint64_t pieces = divide_up(units, aim);
  const std::uint64_t even = divide_up(pieces, shards) * shards;
  return pieces > 1 && units / even >= aim / 2 && even <= units ? even : pieces;
}

std::vector<ChunkPlace> cut(const std::vector<TableSpec>& tables, std::uint64_t aim, std::uint32_t shards) {
  std::vector<ChunkPlace> chunks;
  for (std::uint32_t index = 0; index < tables.size(); ++index) {
    const std::uint64_t units = units_of(tables[index]);
    const std::uint64_t pieces = pieces_of(units, aim, shards);
    std::uint64_t begin = 0;
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const std::uint64_t size = units / pieces + (piece < units % pieces ? 1 : 0);
      const std::uint64_t count = std::min(size * kChunkAlignment, tables[index].elements - begin);
      chunks.push_back({.table = index, .begin = begin, .count = count, .shard = 0});
      begin += count;
    }
  }
  return chunks;
}

/// Cuts, then gives the largest first to the least loaded (Graham 1969); among equals, in table order to the lowest
/// rank.
std::vector<ChunkPlace> spread(const std::vector<TableSpec>& tables, std::uint64_t aim, std::uint32_t shards) {
  std::vector<ChunkPlace> chunks = cut(tables, aim, shards);
  using Load = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (std::uint32_t shard = 0; shard < shards; ++shard) least.emplace(0, shard);
  std::ranges::stable_sort(chunks, std::ranges::greater{}, &ChunkPlace::count);
  for (ChunkPlace& chunk : chunks) {
    const auto [load, shard] = least.top();
    least.pop();
    chunk.shard = shard;
    least.emplace(load + chunk.count, shard);
  }
  std::ranges::sort(chunks, {}, [](const ChunkPlace& chunk) { return std::tuple(chunk.table, chunk.begin); });
  return chunks;
}

bool differ_by_less_than_a_chunk(const std::vector<ChunkPlace>& chunks, std::uint32_t shards) {
  const std::vector<std::uint64_t> loads = shard_loads(chunks, shards);
  const auto [least, most] = std::ranges::minmax_element(loads);
  return *most - *least < std::ranges::max_element(chunks, {}, &ChunkPlace::count)->count;
}

}  // namespace

std::vector<ChunkPlace> place(const std::vector<TableSpec>& tables, std::uint32_t shards,
                              const PlacementOptions& options) {
  check(tables, shards, options);
  std::uint64_t total = 0;
  for (const TableSpec& table : tables) total += units_of(table);

  const std::uint64_t largest = options.max_chunk_bytes / kUnitBytes;
  const std::uint64_t aim = std::min(largest, std::max(kSmallUsual, total / shards / kChunksPerShard));
  std::vector<ChunkPlace> usual = spread(tables, aim, shards);
  if (differ_by_less_than_a_chunk(usual, shards)) return usual;
  for (std::uint64_t finer = aim / 2; finer >= kSmallForBalance; finer /= 2) {
    std::vector<ChunkPlace> chunks = spread(tables, finer, shards);
    if (differ_by_less_than_a_chunk(chunks, shards)) return chunks;
  }
  return usual;
}

std::uint32_t useful_shards(const std::vector<TableSpec>& tables, std::uint32_t most, std::uint32_t step) {
  if (step == 0 || most <= step) return most;
  std::uint64_t bytes = 0;
  for (const TableSpec& table : tables) bytes += table.elements * sizeof(float);
  const std::uint64_t steps = std::clamp<std::uint64_t>(bytes / (kShardBytes * step), 1, most / step);
  return static_cast<std::uint32_t>(steps) * step;
}

std::vector<std::uint64_t> shard_loads(const std::vector<ChunkPlace>& places, std::uint32_t shards) {
  std::vector<std::uint64_t> loads(shards, 0);
  for (const ChunkPlace& chunk : places) {
    TRIREME_CHECK(chunk.shard < shards, "shard {} of {}", chunk.shard, shards);
    loads[chunk.shard] += chunk.count;
  }
  return loads;
}

}  // namespace trireme::ps
