#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cluster/protocol.h"
#include "master/apart_policy.h"

namespace trireme::master {

// The master's decisions, as pure functions of what it knows. Each gives its reason.

/// How many processes may and must take part.
struct JobShape {
  std::uint32_t workers = 1;      ///< at the start, and the most there ever are unless the job is scaled
  std::uint32_t min_workers = 1;  ///< with fewer the job waits
  std::uint32_t min_start = 0;    ///< with fewer it does not start when the time to gather is over; 0 = all
  std::uint32_t servers = 1;
  std::uint32_t replicas = 0;  ///< of each shard of the parameters, on other servers: 0 or 1
};

/// A member as the master sees it.
struct MemberState {
  cluster::Role role = cluster::Role::kWorker;
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
  bool left = false;
  bool disconnected = false;
  std::chrono::milliseconds silent_for{0};
};

/// Whether a member is lost, and why.
struct Health {
  bool lost = false;
  std::string cause = {};   ///< one word, for the event: died, hangs, unreachable, replaced
  std::string reason = {};  ///< for people: which member, why, and where to look
};

/// Decides whether a member of a running job must be given up.
Health judge_member(const MemberState& member, std::chrono::milliseconds hang_after);

/// Returns which members are still missing at the start, for people: "server 0, worker 1, worker 3".
std::string describe_missing(const JobShape& shape, const std::vector<MemberState>& here);

/// A worker as a candidate for the next view.
struct ViewCandidate {
  cluster::MemberId id = 0;
  std::uint32_t slot = 0;
  View since = 0;        ///< the view in which it first took part; 0 = it is new
  bool in_view = false;  ///< in the current view
  bool ready = false;    ///< it waits for the next one
  bool done = false;     ///< it has made all steps
};

/// What the decision about the next view depends on.
struct ViewInputs {
  JobShape shape;
  std::uint32_t most_workers = 0;            ///< most workers in a view: each has at least one lane
  bool broken = false;                       ///< a member of the current view is gone
  std::string gone = {};                     ///< which one, and why
  bool no_server = false;                    ///< the parameters live on servers, and none is left
  std::string balance;                       ///< why lanes should be dealt again; empty = they should not
  std::string place_anew;                    ///< why shards should be placed again; empty = they should not
  std::string save = {};                     ///< why a checkpoint should be made now; empty = it should not
  std::vector<ViewCandidate> workers;        ///< all that are alive
  std::vector<ApartPair> apart = {};         ///< those that cannot reach each other
  std::vector<ApartCandidate> servers = {};  ///< those that take part
  std::string servers_left_out = {};         ///< which do not, and why: LeftOut::reason
};

/// What to do about the current view.
struct ViewDecision {
  enum class Kind {
    kKeep,     ///< nothing to do
    kRegroup,  ///< its members must form the next one: tell those that do not know yet
    kWait,     ///< all live workers wait for the next one, but it needs more members
    kForm,     ///< the next one consists of `workers`
  };
  Kind kind = Kind::kKeep;
  std::string reason;
  std::vector<cluster::MemberId> workers;  ///< by rank
};

/// Decides what to do about the current view, from what the master knows at this moment.
///
/// Returns kKeep if nothing is wrong and no worker wants to join, kRegroup while members of the view have not yet asked
/// for the next one, kWait if all of them have but there is no server, no worker, or fewer workers than
/// `shape.min_workers`, kForm otherwise. Reasons for another view, in this order: a member is gone, newcomers for which
/// `most_workers` leaves room, `place_anew`, `balance`, `save`, a member that cannot go on. Once a member has made all
/// steps, no newcomer is accepted, nothing is moved, and `min_workers` no longer applies.
///
/// `workers` of kForm are all live members, then the newcomers; within each, the oldest in the job first, then by slot.
/// So the chief stays the chief as long as it lives. Of those that are `apart` only some take part
/// (`leave_out_workers`); the others wait in reserve. `reason` is never empty: it is for the log and for
/// people.
///
/// Pure: no clock, no lock, no side effect; never throws (except for lack of memory); thread-safe.
ViewDecision decide_view(const ViewInputs& view_inputs);

}  // namespace trireme::master
