#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::master {

// The master's decisions, as pure functions of what it knows. Each says why.

/// How many may and must take part.
struct JobShape {
  std::uint32_t workers = 1;      ///< at the start, and as many as ever should be unless scaled
  std::uint32_t min_workers = 1;  ///< with fewer the job waits
  std::uint32_t min_start = 0;    ///< with fewer it does not begin, when the time to gather is over; 0 = all
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

/// What the master should do about a member, and why.
struct Health {
  bool lost = false;
  std::string cause = {};   ///< in a word, for the event: died, hangs, unreachable, replaced
  std::string reason = {};  ///< for people: who, why, and where to look
};

/// Whether a member of a running job has to be given up.
Health judge_member(const MemberState& member, std::chrono::milliseconds hang_after);

/// Who is still missing at the start, for people: "server 0, worker 1, worker 3".
std::string describe_missing(const JobShape& shape, const std::vector<MemberState>& here);

/// A worker as far as the next view is concerned.
struct ViewCandidate {
  cluster::MemberId id = 0;
  std::uint32_t slot = 0;
  View since = 0;        ///< the view in which it first took part; 0 = it is new
  bool in_view = false;  ///< of the present view
  bool ready = false;    ///< it waits for the next one
  bool done = false;     ///< it has made all steps
};

/// What the decision about the next view depends on.
struct ViewInputs {
  JobShape shape;
  std::uint32_t most_workers = 0;      ///< in a view: one lane each, at least
  bool broken = false;                 ///< a member of the present view is gone
  bool no_server = false;              ///< the parameters live on servers, and none is left
  std::string balance;                 ///< why the lanes should be dealt out anew; empty = they should not
  std::string place_anew;              ///< why they should be placed anew; empty = they should not
  std::vector<ViewCandidate> workers;  ///< who is alive
};

/// What to do about the present view.
struct ViewDecision {
  enum class Kind {
    kKeep,     ///< it is good
    kRegroup,  ///< its members have to meet in the next one: those that do not know yet are to be told
    kWait,     ///< all workers that are alive wait for the next one, but somebody is missing
    kForm,     ///< the next one consists of `workers`
  };
  Kind kind = Kind::kKeep;
  std::string reason;
  std::vector<cluster::MemberId> workers;  ///< by rank
};

/// Decides what becomes of the present view, from what the master knows at this moment.
///
/// Returns kKeep if nothing is wrong and no worker wants to come, kRegroup while members of the view still have to ask
/// for the next one, kWait if all of them have but there is no server, no worker, or fewer workers than
/// `shape.min_workers`, kForm otherwise. Reasons for another view, the first that holds: a member is gone, newcomers
/// for whom `most_workers` leaves room, `place_anew`, `balance`, a member that cannot go on. Once a member has made all
/// steps, nobody new is taken in, nothing is moved, and `min_workers` does not count any more.
///
/// `workers` of kForm are all members that live, then the newcomers; within each, those that have been in the job
/// longest first, then by slot. So the chief stays the chief as long as it lives. `reason` is never empty: it is for
/// the log and for people.
///
/// Pure: no clock, no lock, no side effect; never throws (but for memory); may be called from any thread.
ViewDecision decide_view(const ViewInputs& view_inputs);

}  // namespace trireme::master
