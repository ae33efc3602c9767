#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/metrics.h"
#include "trireme/types.h"

#include "cluster/assignment.h"
#include "cluster/stragglers.h"
#include "net/address.h"

namespace trireme {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricsRow, step, epoch, samples, loss, accuracy, samples_per_s, lr, clock_min,
                                   clock_max, seconds)
}  // namespace trireme

namespace trireme::cluster {

enum class Role { kWorker, kServer };

std::string to_string(Role role);

/// What members and observers may ask the master.
enum Request : std::uint16_t {
  kJoin = 1,  ///< JoinRequest -> JoinReply: at once for learners, else when there is a view with this process in it
  kHeartbeat = 2,  ///< Heartbeat -> HeartbeatReply
  kPlan = 3,       ///< Plan -> Done: how long the job is; all workers say the same
  kLease = 4,      ///< LeaseRequest -> LeaseReply: work for asynchronous workers
  kStatus = 5,     ///< Done -> JobStatus: for anybody who knows the secret
  kResult = 6,     ///< ResultReport -> Done: what the job achieved, from the chief
  kStop = 7,       ///< StopRequest -> Done: finish the step and end
  kLeave = 8,      ///< LeaveNotice -> Done: a member ends on purpose
  kScale = 9,      ///< ScaleRequest -> Done: how many workers and servers there should be from now on
  kRewind = 10,    ///< RewindRequest -> Done: leased work is done again from a checkpoint on, from the chief
};

struct Done {
  bool ok = true;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Done, ok)
};

/// A process wants to be in the next view: a new one, or a member of the present view that cannot go on in it.
struct JoinRequest {
  Role role = Role::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of its role: what people call it by
  std::int64_t pid = 0;
  net::Address address;  ///< where it listens: servers for workers, workers for each other
  MemberId member = 0;   ///< 0 = new
  View view = 0;         ///< the view that it has come from
  std::string reason;    ///< why it cannot stay there
  bool done = false;     ///< it has made all steps: waits for the end, or to make up for a chief that dies before that
  bool as_learner = false;  ///< a worker that has to get ready first: where others are at work, it can be their learner
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinRequest, role, slot, pid, address, member, view, reason, done, as_learner)
};

struct MemberInfo {
  MemberId id = 0;
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
  net::Address address;
  View since = 0;  ///< the view in which it first took part
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(MemberInfo, id, slot, pid, address, since)
};

/// A numbered membership of the job.
struct ViewInfo {
  View view = 0;
  std::vector<MemberInfo> workers;  ///< by rank: who has been here longest comes first, and is the chief
  std::vector<MemberInfo> servers;  ///< by slot
  std::vector<ShardPlace> shards;   ///< of the parameters, if there are servers: always as many as in the first view
  std::vector<double> lane_costs;   ///< by rank: what the lanes are dealt out by; empty = all workers are the same
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ViewInfo, view, workers, servers, shards, lane_costs)

  /// Which lanes are whose, by rank.
  std::vector<LaneRange> deal(Lane lanes) const;

  std::vector<net::Address> worker_addresses() const;
  std::vector<net::Address> server_addresses() const;
};

/// Shards per server at the start: with that many, servers that come and go can share the load evenly.
inline constexpr std::uint32_t kShardsPerServer = 4;

/// View 1 of a job without a master: members are numbered through, workers from 1 on, then servers. For benchmarks and
/// tests.
ViewInfo first_view(std::uint32_t workers, const std::vector<net::Address>& servers, std::uint32_t copies = 1);

struct JoinReply {
  MemberId member = 0;
  bool over = false;     ///< the job has ended: there is no further view
  bool learner = false;  ///< not in `view` yet, the present one with this process at its end: join again when ready
  ViewInfo view;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinReply, member, over, learner, view)
};

/// How long the job is. A unit is one lane of one step: what an asynchronous worker takes at a time.
struct Plan {
  Step steps = 0;  ///< 0 = only the program knows
  Step steps_per_epoch = 0;
  std::uint64_t batch = 0;
  Lane lanes = 1;
  bool leased = false;       ///< asynchronous: units are given out by the master
  bool elastic = false;      ///< the others go on when a worker dies
  Step log_every = 10;       ///< global steps per row of metrics
  Step pause_every = 0;      ///< leased: steps after which all wait until the chief has saved; 0 = never
  double pause_apart_s = 0;  ///< but not sooner after the last time
  bool balance = false;      ///< lanes move from slow workers to fast ones
  std::string strategy;      ///< how gradients become an update, for people: "allreduce", "ps:bsp"
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Plan, steps, steps_per_epoch, batch, lanes, leased, elastic, log_every, pause_every,
                                 pause_apart_s, balance, strategy)
  bool operator==(const Plan&) const = default;
};

/// What a worker has done since its last report.
struct WorkDone {
  Step clock = 0;  ///< steps it has finished so far
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double correct = 0;  ///< negative = not a classification
  double lr = 0;
  double busy_s = 0;                       ///< that it computed, for
  std::uint64_t lanes = 0;                 ///< so many lanes
  std::map<std::string, double> averages;  ///< loops of one's own, from the chief: the last means over all workers
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WorkDone, clock, samples, loss_sum, correct, lr, busy_s, lanes, averages)
};

/// The clocks of all workers at one moment, from a server: it holds them back, so it knows.
struct ClockReport {
  std::vector<Step> clocks;  ///< by worker; empty = nothing known yet
  Step spread_max = 0;       ///< the largest lead one worker ever had over another
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ClockReport, clocks, spread_max)
};

struct Heartbeat {
  MemberId member = 0;
  WorkDone work;        ///< from workers
  ClockReport clocks;   ///< from servers
  ShardReports shards;  ///< from servers: about the shards they are the primaries of
  bool last = false;    ///< complete the row of metrics in progress
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Heartbeat, member, work, clocks, shards, last)
};

/// What is wrong with a view.
enum class Regroup {
  kNo,
  kAfterStep,  ///< somebody wants to come or go: meet in the next view after a step that all agree on
  kNow,        ///< somebody is gone: nothing in this view will be finished
};

struct HeartbeatReply {
  bool stop = false;  ///< end after the current step
  bool over = false;  ///< all workers are done: servers may go
  std::string abort;  ///< not empty: the job has failed, for this reason; end now
  View view = 0;      ///< `regroup` is about this one
  Regroup regroup = Regroup::kNo;
  std::string reason;            ///< of `regroup`
  bool expelled = false;         ///< this process is no member any more: it was silent for too long, or cut off
  std::vector<MetricsRow> rows;  ///< for the chief: rows completed since its last heartbeat
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HeartbeatReply, stop, over, abort, view, regroup, reason, expelled, rows)
};

/// Units [first, first + count).
struct UnitRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(UnitRange, first, count)
  bool operator==(const UnitRange&) const = default;
};

struct LeaseRequest {
  MemberId member = 0;
  View view = 0;  ///< of the worker: what it says counts in that one only
  std::vector<UnitRange> finished;
  std::uint64_t saved = 0;  ///< not 0: the chief has saved what so many finished units have made
  bool more = true;         ///< it wants work
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseRequest, member, view, finished, saved, more)
};

struct LeaseReply {
  bool over = false;           ///< every unit is finished
  bool save = false;           ///< for the chief: nobody is at work, save what there is, and say so
  UnitRange range;             ///< empty and not over: others are still at work, or somebody saves; ask again
  std::uint64_t finished = 0;  ///< units that all workers together have finished
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseReply, over, save, range, finished)
};

struct RewindRequest {
  MemberId member = 0;
  View view = 0;
  std::uint64_t units = 0;  ///< the first so many are done
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RewindRequest, member, view, units)
};

struct StopRequest {
  std::string reason;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StopRequest, reason)
};

struct LeaveNotice {
  MemberId member = 0;
  std::string failure;  ///< empty = its work is done, or it was asked to go
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaveNotice, member, failure)
};

struct ScaleRequest {  ///< 0 = as many as there are
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ScaleRequest, workers, servers)
};

struct ResultReport {
  nlohmann::json result;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ResultReport, result)
};

enum class JobPhase {
  kGathering,
  kRunning,
  kWaiting,  ///< too few members are left: waits for more
  kFailed,
  kFinished
};

std::string to_string(JobPhase state);

struct JobStatus {
  JobPhase state = JobPhase::kGathering;
  std::string reason;  ///< why it is in that state, for people
  View view = 0;
  Plan plan;
  MetricsRow now;                          ///< over the last moments
  std::map<std::string, double> averages;  ///< see WorkDone
  Step spread_max = 0;                     ///< the largest clock spread seen
  std::vector<Step> clocks;
  std::vector<std::uint32_t> workers;  ///< the slots of those in the view, by rank
  std::vector<std::uint32_t> servers;  ///< likewise
  std::vector<std::uint32_t> others;   ///< the slots of workers that live outside of it: learners, and the reserve
  std::vector<Straggler> stragglers;
  std::uint32_t copies_due = 0;      ///< shards of the parameters that have not all their copies yet
  std::uint32_t wanted_workers = 0;  ///< how many there should be: the launcher starts and ends processes by it
  std::uint32_t wanted_servers = 0;
  nlohmann::json result;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JobStatus, state, reason, view, plan, now, averages, spread_max, clocks, workers,
                                 servers, others, stragglers, copies_due, wanted_workers, wanted_servers, result)
};

}  // namespace trireme::cluster
