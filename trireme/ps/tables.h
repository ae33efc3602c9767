#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/net/segment.h"
#include "trireme/ps/chunk.h"
#include "trireme/ps/layout.h"
#include "trireme/ps/protocol.h"

namespace trireme::ps {

/// The chunks that one server holds, in one shared segment: version words, then parameters.
class Tables {
 public:
  explicit Tables(const OpenRequest& description);

  /// Throws InvalidArgument, naming the difference, if `other` describes another job.
  void check_same(const OpenRequest& other) const;

  Chunk& chunk(std::uint32_t index);  ///< throws InvalidArgument if there is none
  std::size_t size() const { return chunks_.size(); }
  const codec::Spec& codec() const { return description_.codec; }
  const std::shared_ptr<net::Segment>& segment() const { return segment_; }
  std::uint64_t parameter_bytes() const { return parameter_bytes_; }
  std::uint64_t state_bytes() const;

  /// The workers' clocks at one moment, and the largest spread any chunk has seen.
  Chunk::Clocks clocks();

 private:
  OpenRequest description_;
  ChunkPolicy policy_;
  std::shared_ptr<net::Segment> segment_;
  std::deque<Chunk> chunks_;
  std::uint64_t parameter_bytes_ = 0;
};

}  // namespace trireme::ps
