#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/types.h"

namespace trireme::cluster {

/// Identifies one process in a job. Never reused: a restarted process is a new member, and what its predecessor still
/// sends is rejected. 0 = none yet.
using MemberId = std::uint64_t;

/// Where a shard of the parameters lives. Shards are the unit of placement, replication and migration.
struct ShardPlace {
  MemberId primary = 0;
  MemberId replica = 0;  ///< 0 = none
  bool in_sync = false;  ///< the replica has everything that was ever acknowledged: it may take over
  View born = 0;         ///< the view in which it last started empty: older copies are of lost data
  MemberId filling = 0;  ///< gets a copy to become the replica instead of one in sync, which stays until then; 0 = none
  bool filled = false;   ///< `filling` is in sync, too
  bool operator==(const ShardPlace&) const = default;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardPlace, primary, replica, in_sync, born, filling, filled)

  /// Returns the server that a copy is being built on; 0 = none.
  MemberId being_built() const { return filling != 0 ? (filled ? 0 : filling) : in_sync ? 0 : replica; }
};

/// What a primary reports about a shard that it replicates.
struct ShardReport {
  std::uint32_t shard = 0;
  MemberId replica = 0;
  bool in_sync = false;
  std::string failure;  ///< not empty: the replica is lost or too slow and gets no more updates in this view
  bool silent = false;  ///< because its host does not answer
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardReport, shard, replica, in_sync, failure, silent)
};

/// The reports of a primary about all its shards, in one view.
struct ShardReports {
  View view = 0;
  std::vector<ShardReport> reports;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ShardReports, view, reports)
};

/// A server as the placement sees it.
struct AssignableServer {
  MemberId id = 0;
  bool leaving = false;  ///< it lives, and hands over its shards: done when no place names it
};

struct Assignment {
  std::vector<ShardPlace> shards;
  std::string reason;               ///< what was done and why, for the log
  std::vector<std::uint32_t> lost;  ///< no live copy: these start empty, and the job must be restored from a checkpoint
};

/// Places `shards` shards, with `copies` copies each (1 = no replicas, 2 = with replicas), on the live servers.
///
/// The first time (`before` is empty) they are spread evenly. Later, an in-sync replica takes over from a primary that
/// is gone, and a new replica is chosen where one is missing. Load moves in the same way: a server becomes the replica
/// of a shard (in_sync = false: it is built while the job runs) and, in a later call, when it is in sync, the primary.
/// Where there is a replica in sync, the new one is a third place (`filling`) until it is in sync, too: a move never
/// leaves a shard with fewer copies. So a new server gets its share in two calls; a leaving one hands over in the first
/// call, and is free of copies in a later one. An out-of-sync copy is never promoted; a replica in sync is dropped only
/// for another one in sync, or because no server is left for it.
///
/// Repeated calls, with replicas getting in sync in between, converge: the numbers of primaries, and of copies, then
/// differ by at most one between the staying servers. Pure. Throws InvalidArgument if no server lives, or `copies` is
/// not 1 or 2.
Assignment assign_shards(const std::vector<ShardPlace>& before, const std::vector<AssignableServer>& servers,
                         std::uint32_t shards, std::uint32_t copies);

/// Applies the primaries' reports: marks a replica, or a copy being filled, that is reported in sync. Ignores reports
/// about others than the current ones: they are old. Returns whether anything changed.
bool apply_reports(std::vector<ShardPlace>& places, MemberId from, const std::vector<ShardReport>& reports);

}  // namespace trireme::cluster
