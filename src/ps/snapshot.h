#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "trireme/deadline.h"

#include "base/mutex.h"
#include "ps/chunk.h"

namespace trireme::ps {

/// What one server is the primary of, all at one version: its part of a checkpoint.
struct Snapshot {
  Step version = 0;
  std::map<std::uint32_t, ChunkState> chunks;  ///< as Layout::chunks() numbers them
};

/// Puts chunks together that reach a version one after the other. Keeps the newest version that is complete, what is
/// not complete yet, and the one that is wanted. Thread-safe.
class SnapshotCollector {
 public:
  /// In `view` a snapshot consists of `chunks`. What came before is forgotten: chunks may have been moved, or restored
  /// to an earlier version, since.
  void expect(View view, std::set<std::uint32_t> chunks);

  /// One of them, as it is at `header.version`. Never blocks for long.
  void add(const ChunkHeader& header, ChunkState state);

  /// From now on `version` is kept for `take`, one at a time. Returns the chunks that it still lacks. Throws StaleView.
  std::vector<std::uint32_t> want(Step version, View view);

  /// Steps that had changed something, by what is there of `version`.
  Step updates(Step version) const;

  /// Waits for what is wanted, which then is no more. Nothing if its view has ended, or time is up, or at `stop`.
  std::optional<Snapshot> take(const Deadline& deadline, const std::stop_token& stop);

  /// Nothing is wanted any more.
  void forget();

 private:
  struct Piece {
    Step updates = 0;
    ChunkState state;
  };
  using Pieces = std::map<std::uint32_t, Piece>;  // by chunk

  bool complete(Step version) const TRIREME_REQUIRES(mutex_);

  mutable Mutex mutex_;
  StoppableCondition changed_;
  View view_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::set<std::uint32_t> expected_ TRIREME_GUARDED_BY(mutex_);
  std::map<Step, Pieces> pieces_ TRIREME_GUARDED_BY(mutex_);  // by version
  std::optional<Step> wanted_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::ps
