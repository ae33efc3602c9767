#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "trireme/ps/chunk.h"
#include "trireme/ps/layout.h"

namespace trireme::ps {

/// The parameters that one server is the primary of, all at one version: its part of a checkpoint.
struct Snapshot {
  struct Piece {
    std::string table;
    std::uint64_t begin = 0;  ///< elements [begin, begin + parameters.size()) of it
    std::span<const float> parameters;
    std::vector<std::span<const float>> state;  ///< one array per `state_floats(rule)`, as long as `parameters`
    std::shared_ptr<const void> hold;           ///< keeps the memory
  };
  Step version = 0;
  Step updates = 0;  ///< steps that changed something
  std::vector<Piece> pieces;
};

using SnapshotHook = std::function<void(Snapshot)>;

/// Puts chunks together that reach a version one after the other, and gives them away when all are there. A version
/// that is interrupted by the move of a shard is dropped when a later one is complete. Thread-safe; one thread.
class SnapshotCollector {
 public:
  /// `layout` outlives it. `hook` is called on the collector's thread, one snapshot after the other.
  SnapshotCollector(const Layout& layout, SnapshotHook hook);
  ~SnapshotCollector();

  /// The chunks that belong to a snapshot from now on.
  void expect(std::set<std::uint32_t> chunks);

  /// One of them, as it is at `header.version`. Never blocks on the hook.
  void add(const ChunkHeader& header, ChunkImage image);

 private:
  using Pieces = std::map<std::uint32_t, std::pair<ChunkHeader, ChunkImage>>;  // by chunk

  void finish(Step version);  // with mutex_
  Snapshot assemble(const Pieces& pieces) const;
  void run(const std::stop_token& stop);

  const Layout& layout_;
  const SnapshotHook hook_;
  std::mutex mutex_;  // guards all below but the thread
  std::condition_variable_any work_;
  std::set<std::uint32_t> expected_;
  std::map<Step, Pieces> gathering_;  // by version
  std::deque<Snapshot> ready_;
  std::jthread thread_;
};

}  // namespace trireme::ps
