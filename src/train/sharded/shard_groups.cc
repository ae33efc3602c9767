#include "train/sharded/shard_groups.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/numbers/lanes.h"

namespace trireme {
namespace {

/// Lanes for groups first, then for the workers of each; empty if a group would have fewer lanes than workers.
std::vector<LaneRange> deal_to_groups(Lane lanes, std::uint32_t groups, std::uint32_t shards) {
  std::vector<LaneRange> dealt;
  for (const LaneRange& group : deal_lanes(lanes, groups)) {
    if (group.count < shards) return {};
    for (const LaneRange& own : deal_lanes(group.count, shards)) {
      dealt.push_back({group.first + own.first, own.count});
    }
  }
  return dealt;
}

}  // namespace

ShardGroups make_shard_groups(Lane lanes, std::uint32_t workers, std::uint32_t wanted) {
  const std::uint32_t least = wanted == 0 ? workers : std::min(wanted, workers);
  for (std::uint32_t shards = std::max(1u, least); shards < workers; ++shards) {
    if (workers % shards != 0) continue;
    ShardGroups groups{.shards = shards, .lanes = deal_to_groups(lanes, workers / shards, shards), .reason = {}};
    if (groups.lanes.empty()) continue;
    if (shards != wanted) {
      groups.reason = fmt::format("groups of {} do not divide {} workers with {} lanes: groups of {} do", wanted,
                                  workers, lanes, shards);
    }
    return groups;
  }
  ShardGroups groups{.shards = workers, .lanes = deal_lanes(lanes, workers), .reason = {}};
  if (wanted != 0 && wanted != workers) {
    groups.reason =
        fmt::format("groups of {} do not divide {} workers with {} lanes: all are one group", wanted, workers, lanes);
  }
  return groups;
}

}  // namespace trireme
