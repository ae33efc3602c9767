#pragma once

#include <deque>
#include <memory>

#include "net/shm/segment.h"
#include "ps/chunk.h"
#include "ps/layout.h"

namespace trireme::ps {

/// One copy of a shard: its chunks, in one shared segment: version words, then parameters.
class Shard {
 public:
  /// `policy` outlives it.
  Shard(const Layout& layout, std::uint32_t number, const ChunkPolicy& policy);

  std::uint32_t number() const { return number_; }
  std::size_t size() const { return chunks_.size(); }
  Chunk& chunk(std::size_t i) { return chunks_[i]; }  ///< as Layout::Chunk::shard_index counts them
  const std::shared_ptr<net::Segment>& segment() const { return segment_; }
  std::uint64_t parameter_bytes() const { return parameter_bytes_; }
  std::uint64_t state_bytes() const;

 private:
  std::uint32_t number_;
  std::shared_ptr<net::Segment> segment_;
  std::deque<Chunk> chunks_;
  std::uint64_t parameter_bytes_ = 0;
};

}  // namespace trireme::ps
