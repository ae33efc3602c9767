#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::master {

// Who takes part where some members reach the master, but not each other. Pure functions, as in view_policy.h.

/// Two members that do not reach each other; the smaller number first.
using ApartPair = std::pair<cluster::MemberId, cluster::MemberId>;

/// A worker or server that could be in the next view.
struct ApartCandidate {
  cluster::MemberId id = 0;
  std::uint32_t slot = 0;
};

/// Those that cannot take part.
struct LeftOut {
  std::vector<cluster::MemberId> members;
  std::string reason;  ///< for people: "; server 1 is left out: it and …"; empty if there are none
};

/// Chooses the servers that cannot take part, because others do not reach them.
///
/// A server holds state, a worker does not: so a server that one worker does not reach stays, and that worker is left
/// out (`leave_out_workers`). It is left out if several workers do not reach it (or the only one), or another server
/// does not, provided that nothing is lost with it: all shards of which it is the primary have a copy in sync on a
/// server that stays. One that holds nothing is left out for any worker. Workers that reach no server at all do not
/// count. Of several servers, the one that most workers do not reach goes first, then the one that most servers do not
/// reach, that has the fewest primaries, and the highest slot.
LeftOut leave_out_servers(const std::vector<ApartCandidate>& servers, const std::vector<ApartCandidate>& workers,
                          const std::vector<ApartPair>& apart, const std::vector<cluster::ShardPlace>& shards);

/// Chooses the workers that cannot take part beside `servers`: those that do not reach one of them; then, until no two
/// workers that do not reach each other are left, those with the most such pairs; of several, the last one in
/// `workers`.
LeftOut leave_out_workers(const std::vector<ApartCandidate>& workers, const std::vector<ApartCandidate>& servers,
                          const std::vector<ApartPair>& apart);

/// Drops the copies that a primary does not reach: where neither server can be left out, their shards go on without.
std::vector<cluster::ShardPlace> without_unreached_copies(std::vector<cluster::ShardPlace> shards,
                                                          const std::vector<ApartPair>& apart);

}  // namespace trireme::master
