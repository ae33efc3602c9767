#pragma once

#include <string>

#include "master/member_table.h"

namespace trireme::master {

/// How many servers, and copies of shards, the master wants.
struct ServerTarget {
  std::uint32_t servers = 0;  ///< those of higher slots hand over their shards and leave
  std::uint32_t copies = 1;   ///< of each shard
};

/// Returns why the shards of a running job should be placed again: a server has joined or must leave, or a finished
/// copy can take over. Empty if they should not: all are in place, or copies are still being built.
std::string why_place_anew(const cluster::ViewInfo& view, const MemberTable& members, const ServerTarget& target);

/// Puts the live servers into `next`, and the shards of `before` on them; logs what was moved and why. Shards that are
/// lost with their server start empty.
void place_shards(cluster::ViewInfo& next, const cluster::ViewInfo& before, const MemberTable& members,
                  const ServerTarget& target);

/// Returns a member that was given up, though heard of since `since`, and has the only copies of some shards, or, where
/// there are no servers, the newest parameters: it may be back in a moment, while a view without it would lose them.
/// Null if there is none, or another process has its place.
const Member* holder_of_last_copies(const cluster::ViewInfo& view, const MemberTable& members,
                                    Deadline::Clock::time_point since);

/// Returns whether a server is no longer needed: it was to leave, and has handed over all its shards.
bool may_go(const Member& server, const cluster::ViewInfo& view, const ServerTarget& target);

/// Returns how many shards currently have fewer copies than they should.
std::uint32_t copies_due(const cluster::ViewInfo& view, const ServerTarget& target);

}  // namespace trireme::master
