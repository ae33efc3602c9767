#pragma once

#include <memory>
#include <vector>

#include "ps/layout.h"
#include "ps/protocol.h"
#include "ps/replica_link.h"
#include "ps/shard.h"
#include "ps/snapshot.h"

namespace trireme::ps {

/// A job's tables as every server knows them, whatever part of them it holds. Immutable.
class Tables {
 public:
  /// Throws InvalidArgument if they cannot be, or are more than a server can hold.
  /// With `snapshots`, those of what a server is the primary of are collected, of every version that the description
  /// names and of others on demand.
  Tables(const JobTables& description, std::shared_ptr<net::BufferPool> pool, bool snapshots = false,
         SpanRecorder* spans = nullptr);

  /// Throws InvalidArgument, naming the difference, if `other` describes another job.
  void check_same(const JobTables& other) const;

  /// Throws InvalidArgument if `view` has no place for these tables, or one that cannot be.
  void check_view(const cluster::ViewInfo& view) const;

  const JobTables& description() const { return description_; }
  const Layout& layout() const { return layout_; }
  const ChunkPolicy& policy() const { return policy_; }
  SnapshotCollector* snapshots() const { return snapshots_.get(); }  ///< null = none are taken

 private:
  JobTables description_;
  Layout layout_;
  std::unique_ptr<SnapshotCollector> snapshots_;
  ChunkPolicy policy_;
};

/// What one server holds in one view, as primary or as replica. Immutable but for what is inside the chunks; requests
/// keep it alive while they work on it.
class HeldShards {
 public:
  /// Takes over the shards of `before` (null: none) that this server still has a place for, makes those that are new,
  /// and brings all their chunks into `view`; `before` ends with that. The replicas have not started.
  HeldShards(std::shared_ptr<const Tables> tables, const cluster::ViewInfo& view, MemberId self,
             const HeldShards* before, net::EventLoop& loop, const ReplicaLinkOptions& link);

  /// The chunk that Layout::chunks() numbers so. Throws InvalidArgument if there is none, or this server is not its
  /// primary (`primary_of`), or has no copy (`held`), or is not its replica while `from` is the primary (`replica_of`).
  Chunk& primary_of(std::uint32_t chunk) const;
  Chunk& held(std::uint32_t chunk) const;
  Chunk& replica_of(std::uint32_t chunk, MemberId from) const;

  const Tables& tables() const { return *tables_; }
  View view() const { return view_.view; }
  bool is_primary(const Shard& shard) const { return view_.shards[shard.number()].primary == self_; }
  bool is_replica(const Shard& shard, MemberId primary) const {
    const cluster::ShardPlace& place = view_.shards[shard.number()];
    return (place.replica == self_ || place.filling == self_) && place.primary == primary;
  }
  const std::vector<std::shared_ptr<Shard>>& shards() const { return held_; }  ///< all that are here
  const std::vector<std::shared_ptr<ReplicaLink>>& links() const { return links_; }

  /// Sends what requests have left for the replicas.
  void flush() const {
    for (const auto& link : links_) link->flush();
  }

  /// Reports about the shards that these tables are too small for: their copies are in sync, there is nothing in them.
  std::vector<cluster::ShardReport> empty_shards() const;

  /// Of the chunks that this server is the primary of.
  LoadStatus load_status() const;

  /// The workers' clocks at one moment, and the largest spread any chunk has seen.
  Chunk::Clocks clocks() const;

 private:
  const std::shared_ptr<Shard>& shard_of(std::uint32_t chunk) const;
  void expect_snapshots() const;

  std::shared_ptr<const Tables> tables_;
  cluster::ViewInfo view_;
  MemberId self_;
  std::vector<std::shared_ptr<Shard>> by_number_;  // null = not here
  std::vector<std::shared_ptr<Shard>> held_;
  std::vector<std::shared_ptr<ReplicaLink>> links_;  // one per server that backs up something of ours
};

}  // namespace trireme::ps
