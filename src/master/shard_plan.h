#pragma once

#include <string>

#include "master/member_table.h"

namespace trireme::master {

/// What the master wants of the servers.
struct ServerTarget {
  std::uint32_t servers = 0;  ///< how many: those of a higher slot give away what they hold, and go
  std::uint32_t copies = 1;   ///< of each shard
};

/// Why the parameters of a running job should be placed anew: a server has come or has to go, or a copy that was built
/// can take over. Empty if they should not: all is where it belongs, or copies are still being built.
std::string why_place_anew(const cluster::ViewInfo& view, const MemberTable& members, const ServerTarget& target);

/// Puts the living servers into `next`, and the shards of `before` on them; the log says what was moved and why. Shards
/// that are lost with their server begin empty.
void place_shards(cluster::ViewInfo& next, const cluster::ViewInfo& before, const MemberTable& members,
                  const ServerTarget& target);

/// Whether a server has nothing more to do: it was to go, and has given everything away.
bool may_go(const Member& server, const cluster::ViewInfo& view, const ServerTarget& target);

/// How many shards have fewer copies than they should, now.
std::uint32_t copies_due(const cluster::ViewInfo& view, const ServerTarget& target);

}  // namespace trireme::master
