#pragma once

#include <cstdint>
#include <vector>

#include "ps/placement.h"

namespace trireme::ps {

/// Where everything lies: in a worker's flat memory (all tables one after the other) and in each shard's segment (its
/// chunks one after the other). A pure function of the tables and the number of shards, so both sides compute it; which
/// server holds which shard is another matter (cluster/assignment.h).
class Layout {
 public:
  struct Chunk {
    ChunkPlace place;
    std::uint64_t worker_offset = 0;  ///< floats from the start of the worker's flat memory
    std::uint64_t shard_offset = 0;   ///< floats from the start of the shard's parameters
    std::uint32_t shard_index = 0;    ///< which of that shard's chunks, from 0
  };

  Layout() = default;
  Layout(std::vector<TableSpec> tables, std::uint32_t shards, const PlacementOptions& options = {});

  const std::vector<TableSpec>& tables() const { return tables_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }  ///< in order of (table, begin)
  std::uint32_t shards() const { return static_cast<std::uint32_t>(shard_floats_.size()); }

  std::uint64_t worker_floats() const { return worker_floats_; }
  std::uint64_t table_offset(std::uint32_t table) const { return table_offsets_[table]; }
  std::uint64_t shard_floats(std::uint32_t shard) const { return shard_floats_[shard]; }
  std::uint32_t shard_chunks(std::uint32_t shard) const { return shard_chunks_[shard]; }

  /// The chunks of `table` are chunks()[first .. first + count).
  std::uint32_t first_chunk(std::uint32_t table) const { return table_chunks_[table]; }
  std::uint32_t chunk_count(std::uint32_t table) const { return table_chunks_[table + 1] - table_chunks_[table]; }

 private:
  std::vector<TableSpec> tables_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint64_t> table_offsets_;
  std::vector<std::uint32_t> table_chunks_;
  std::vector<std::uint64_t> shard_floats_;
  std::vector<std::uint32_t> shard_chunks_;
  std::uint64_t worker_floats_ = 0;
};

/// Bytes before the parameters in a shard's segment: one version word per chunk (see chunk.h), in whole pages.
std::uint64_t version_words_bytes(std::uint32_t chunks);

}  // namespace trireme::ps
