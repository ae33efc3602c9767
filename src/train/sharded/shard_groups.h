#pragma once

#include <string>
#include <vector>

#include "trireme/types.h"

namespace trireme {

/// How workers divide the state among themselves: into shard groups of equal size, each of which holds all of it.
struct ShardGroups {
  std::uint32_t shards = 1;      ///< workers of a group: ranks [0, shards) are the first one, and so on
  std::vector<LaneRange> lanes;  ///< by rank: a subtree each, and so have the workers of a group together
  std::string reason;            ///< why not as many shards as were asked for; empty: as many

  std::uint32_t groups() const { return static_cast<std::uint32_t>(lanes.size()) / shards; }
};

/// Divides `workers` into groups of `wanted` (0 = all of them in one group); where that does not divide them, or the
/// lanes, into the smallest larger groups that do: a worker then holds less. Pure, so all workers agree. Throws
/// InvalidArgument unless 1 <= workers <= lanes.
ShardGroups make_shard_groups(Lane lanes, std::uint32_t workers, std::uint32_t wanted);

}  // namespace trireme
