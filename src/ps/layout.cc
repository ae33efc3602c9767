#include "ps/layout.h"

namespace trireme::ps {
namespace {

std::uint64_t aligned(std::uint64_t floats) {
  return (floats + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
}

}  // namespace

Layout::Layout(std::vector<TableSpec> tables, std::uint32_t shards, const PlacementOptions& options)
    : tables_(std::move(tables)), shard_floats_(shards, 0), shard_chunks_(shards, 0) {
  for (const TableSpec& table : tables_) {
    table_offsets_.push_back(worker_floats_);
    worker_floats_ += aligned(table.elements);
  }
  for (const ChunkPlace& place : place(tables_, shards, options)) {
    while (table_chunks_.size() <= place.table) table_chunks_.push_back(static_cast<std::uint32_t>(chunks_.size()));
    chunks_.push_back({.place = place,
                       .worker_offset = table_offsets_[place.table] + place.begin,
                       .shard_offset = shard_floats_[place.shard],
                       .shard_index = shard_chunks_[place.shard]++});
    shard_floats_[place.shard] += aligned(place.count);
  }
  table_chunks_.push_back(static_cast<std::uint32_t>(chunks_.size()));
}

std::uint64_t version_words_bytes(std::uint32_t chunks) {
  constexpr std::uint64_t kPage = 4096;
  return (chunks * sizeof(std::uint64_t) + kPage - 1) / kPage * kPage;
}

}  // namespace trireme::ps
