#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

namespace trireme::cluster {

/// One process's part in a job. Never given twice: a restarted process is another member, and whatever its predecessor
/// still sends is refused. 0 = none yet.
using MemberId = std::uint64_t;

/// Where a shard of the parameters lives. Shards are the unit of placement, replication and migration.
struct ShardPlace {
  MemberId primary = 0;
  MemberId replica = 0;  ///< 0 = none
  bool in_sync = false;  ///< the replica has all that was ever acknowledged: it may take over
  View born = 0;         ///< the view in which it last began empty: older copies are of something that was lost
  bool operator==(const ShardPlace&) const = default;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardPlace, primary, replica, in_sync, born)
};

/// What a primary says about a shard that it replicates.
struct ShardReport {
  std::uint32_t shard = 0;
  MemberId replica = 0;
  bool in_sync = false;
  std::string failure;  ///< not empty: the replica is lost or too slow, nothing more reaches it in this view
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardReport, shard, replica, in_sync, failure)
};

/// What a primary says about all of them, in one view.
struct ShardReports {
  View view = 0;
  std::vector<ShardReport> reports;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardReports, view, reports)
};

/// A server as far as placement is concerned.
struct AssignableServer {
  MemberId id = 0;
  bool leaving = false;  ///< it lives, and gives away what it holds: done when no place names it
};

struct Assignment {
  std::vector<ShardPlace> shards;
  std::string reason;               ///< what was done and why, for the log
  std::vector<std::uint32_t> lost;  ///< no live copy: these begin empty, the job has to be restored from a checkpoint
};

/// Places `shards` shards, with `copies` copies each (1 = no replicas, 2 = with), on the servers that live.
///
/// The first time (`before` is empty) they are spread evenly. Later: an in-sync replica takes over from a primary that
/// is gone, and a new replica is chosen where one is missing. Load is moved by the same means: a server becomes the
/// replica of a shard (in_sync = false: it is built while the job runs), and by a later call, when it is in sync, the
/// primary. So a server that comes gets its share in two calls, one that is leaving loses it in two. While a replica
/// moves, its shard has one copy less. An out-of-sync copy is never promoted; a copy is never lost on purpose.
///
/// Repeated calls, with replicas in sync in between, come to rest: primaries, and all copies, then differ by at most
/// one between servers that stay. Pure. Throws InvalidArgument if no server lives, or `copies` is not 1 or 2.
Assignment assign_shards(const std::vector<ShardPlace>& before, const std::vector<AssignableServer>& servers,
                         std::uint32_t shards, std::uint32_t copies);

/// Takes the primaries' words into account: a replica that is reported in sync is marked so. Reports about another
/// replica than the present one are old, and ignored. Returns whether anything changed.
bool apply_reports(std::vector<ShardPlace>& places, MemberId from, const std::vector<ShardReport>& reports);

}  // namespace trireme::cluster
