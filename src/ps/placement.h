#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/types.h"

namespace trireme::ps {

/// A dense table: one tensor of the model, as a flat row of floats.
struct TableSpec {
  std::string name;
  std::uint64_t elements = 0;
  /// Not parameters, but what the last step's gradients add up to: nothing is learned, averaged, compressed or saved.
  /// For what workers tell each other in every step. In ssp and asp a step is one worker's.
  bool sums = false;
  /// Not 0: the table of sums is a loss scale (optim::LossScale), which the server advances in each step; it doubles
  /// after so many good ones. What is pushed to it says whether the gradient of a step was not finite: ssp, asp.
  std::uint64_t scale_growth = 0;
  double lr = 1;     ///< the learning rate is multiplied by this
  double decay = 1;  ///< and weight decay (UpdateConfig::l2) by this
};

/// Where a chunk, elements [begin, begin + count) of a table, lives.
struct ChunkPlace {
  std::uint32_t table = 0;  ///< index into the list of tables
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  std::uint32_t shard = 0;

  std::uint64_t end() const { return begin + count; }
  bool operator==(const ChunkPlace&) const = default;
};

struct PlacementOptions {
  std::size_t max_chunk_bytes = std::size_t{1} << 20;
};

/// Chunks begin at multiples of this many floats: one cache line, so that no two chunks share one.
inline constexpr std::uint64_t kChunkAlignment = 16;

/// Cuts `tables` into chunks and spreads them over `shards`. Pure: every process computes the same places, sorted by
/// (table, begin), covering every element once.
///
/// A table is cut into near-equal chunks of at most `max_chunk_bytes`, a multiple of `shards` of them where that makes
/// sense; in small models into smaller ones (about two per shard), but not below about 4 KiB. Chunks go, largest
/// first, to the shard that holds the least. So two shards never differ by more than the largest chunk. Where they
/// would differ by a whole one (three equal tensors on two shards) the model is cut finer, down to about 1 KiB, until
/// they differ by less; if nothing helps (tensors all alike and under 2 KiB, hardly more floats than shards) the usual
/// cut stands.
///
/// Throws InvalidArgument if there is no shard, no table, an empty table, or no room for 16 floats in a chunk.
std::vector<ChunkPlace> place(const std::vector<TableSpec>& tables, std::uint32_t shards,
                              const PlacementOptions& options = {});

/// Over how many of at most `most` shards `tables` should be spread: a multiple of `step`, which is the number of
/// servers at the start, as long as a shard does not become smaller than about 64 KiB. Pure.
std::uint32_t useful_shards(const std::vector<TableSpec>& tables, std::uint32_t most, std::uint32_t step);

/// How many elements each of `shards` holds: for reports and tests.
std::vector<std::uint64_t> shard_loads(const std::vector<ChunkPlace>& places, std::uint32_t shards);

}  // namespace trireme::ps
