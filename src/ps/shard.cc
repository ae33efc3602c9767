#include "ps/shard.h"

namespace trireme::ps {

Shard::Shard(const Layout& layout, std::uint32_t number, const ChunkPolicy& policy) : number_(number) {
  const std::uint64_t words = version_words_bytes(layout.shard_chunks(number));
  parameter_bytes_ = layout.shard_floats(number) * sizeof(float);
  if (parameter_bytes_ == 0) return;  // a small model has fewer chunks than shards
  segment_ = net::Segment::create("trireme-parameters", words + parameter_bytes_);
  segment_->seal_writes();
  auto* word = reinterpret_cast<std::atomic<std::uint64_t>*>(segment_->bytes().data());
  auto* floats = reinterpret_cast<float*>(segment_->bytes().data() + words);
  for (std::uint32_t index = 0; index < layout.chunks().size(); ++index) {
    const Layout::Chunk& chunk = layout.chunks()[index];
    if (chunk.place.shard != number) continue;
    const TableSpec& table = layout.tables()[chunk.place.table];
    chunks_.emplace_back(policy,
                         Chunk::ChunkId{.index = index,
                                        .shard = number,
                                        .sums = table.sums,
                                        .scale_growth = table.scale_growth,
                                        .lr = table.lr,
                                        .decay = table.decay},
                         std::span(floats + chunk.shard_offset, chunk.place.count), word++);
  }
}

std::uint64_t Shard::state_bytes() const {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.state_bytes();
  return bytes;
}

}  // namespace trireme::ps
