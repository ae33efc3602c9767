#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/metrics.h"
#include "trireme/types.h"

#include "cluster/assignment.h"
#include "cluster/span_report.h"
#include "cluster/stragglers.h"
#include "net/address.h"

namespace trireme {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Metric, name, sum, count, form)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NamedValue, name, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricsRow, step, epoch, samples, loss, metrics, samples_per_s, lr, clock_min,
                                   clock_max, time, interval_s, seconds)
}  // namespace trireme

namespace trireme::cluster {

enum class Role { kWorker, kServer };

std::string to_string(Role role);

/// Requests of members and observers to the master.
enum Request : std::uint16_t {
  kJoin = 1,  ///< JoinRequest -> JoinReply: at once for learners, else when there is a view with this process in it
  kHeartbeat = 2,    ///< Heartbeat -> HeartbeatReply
  kPlan = 3,         ///< Plan -> Done: how long the job is; all workers say the same
  kLease = 4,        ///< LeaseRequest -> LeaseReply: work for asynchronous workers
  kStatus = 5,       ///< Done -> JobStatus: for any peer that knows the secret
  kResult = 6,       ///< ResultReport -> Done: the result of the job, from the chief
  kStop = 7,         ///< StopRequest -> Done: finish the step and end
  kLeave = 8,        ///< LeaveNotice -> Done: a member ends on purpose
  kScale = 9,        ///< ScaleRequest -> Done: how many workers and servers there should be from now on
  kRewind = 10,      ///< RewindRequest -> Done: leased work is repeated from a checkpoint on, from the chief
  kClaimSlot = 11,   ///< SlotClaimRequest -> SlotClaim: for processes whose launcher gave them no rank
  kCheckpoint = 12,  ///< CheckpointNow -> Done: save the state as soon as possible
  kRecord = 13,      ///< RecordRequest -> RecordReply: collect what the members did in their last steps
  kSpans = 14,       ///< SpanReport -> Done: that of one member
  kRecorded = 15,    ///< RecordedQuery -> RecordedReply: what was collected, member by member
};

struct Done {
  bool ok = true;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Done, ok)
};

struct SlotClaimRequest {
  Role role = Role::kWorker;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SlotClaimRequest, role)
};

/// The next slot that nobody has claimed or taken; each is given out once.
struct SlotClaim {
  std::uint32_t slot = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(SlotClaim, slot)
};

/// A process wants to be in the next view: a new one, or a member of the current view that cannot continue in it.
struct JoinRequest {
  Role role = Role::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of its role; how people refer to it
  std::int64_t pid = 0;
  net::Address address;     ///< where it listens: servers for workers, workers for each other
  MemberId member = 0;      ///< 0 = new
  View view = 0;            ///< the view that it leaves
  std::string reason;       ///< why it leaves it
  bool done = false;        ///< it has made all steps: waits for the end, or for a chief to die before that
  bool as_learner = false;  ///< a worker that must catch up first: if others are at work, it may be their learner
  std::vector<MemberId> unreachable = {};  ///< members of that view from which it gets no answer
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinRequest, role, slot, pid, address, member, view, reason, done, as_learner,
                                 unreachable)
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
  std::vector<MemberInfo> workers;  ///< by rank: the oldest member comes first, and is the chief
  std::vector<MemberInfo> servers;  ///< by slot
  std::vector<ShardPlace> shards;   ///< of the parameters, if there are servers: always as many as in the first view
  std::vector<double> lane_costs;   ///< by rank: relative costs by which lanes are dealt; empty = all workers are equal
  bool save = false;                ///< its workers save a checkpoint before its first step: somebody asked for one
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ViewInfo, view, workers, servers, shards, lane_costs, save)

  /// Returns the lanes of each worker, by rank.
  std::vector<LaneRange> deal(Lane lanes) const;

  std::vector<net::Address> worker_addresses() const;
};

/// Shards per server at the start: enough to balance the load as servers come and go.
inline constexpr std::uint32_t kShardsPerServer = 4;

/// Returns view 1 of a job without a master: members are numbered consecutively, workers from 1 on, then servers. For
/// benchmarks and tests.
ViewInfo first_view(std::uint32_t workers, const std::vector<net::Address>& servers, std::uint32_t copies = 1);

struct JoinReply {
  MemberId member = 0;
  bool over = false;     ///< the job has ended: there is no further view
  bool learner = false;  ///< `view` is the current one with this process added at its end: join again when ready
  ViewInfo view;
  std::string launch;              ///< identifies this launch of the job among all others, of the same run or not
  std::int64_t hang_after_ms = 0;  ///< how long a member may be silent, to the master and to the others
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinReply, member, over, learner, view, launch, hang_after_ms)
};

/// How long the job is. A unit is one lane of one step: what an asynchronous worker computes at a time.
struct Plan {
  Step steps = 0;  ///< 0 = only the program knows
  Step steps_per_epoch = 0;
  std::uint64_t batch = 0;
  std::uint64_t samples_per_epoch = 0;  ///< its last batch may be smaller
  Lane lanes = 1;
  bool leased = false;       ///< asynchronous: the master leases units to workers
  bool elastic = false;      ///< the others go on when a worker dies
  Step log_every = 10;       ///< global steps per row of metrics
  Step pause_every = 0;      ///< leased: steps after which all wait until the chief has saved; 0 = never
  double pause_apart_s = 0;  ///< but at least this long after the last time
  bool balance = false;      ///< lanes move from slow workers to fast ones
  std::string strategy;      ///< how gradients become an update, for people: "allreduce", "ps:bsp"
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Plan, steps, steps_per_epoch, batch, samples_per_epoch, lanes, leased, elastic,
                                 log_every, pause_every, pause_apart_s, balance, strategy)
  bool operator==(const Plan&) const = default;

  /// Returns how many samples `made` steps have visited.
  std::uint64_t samples_in(Step made) const;
};

/// What a worker has computed of one lane for one row of metrics, so far: sent again and again until the chief has the
/// row, so that no master takes a part of it into its grave.
struct RowPart {
  Step row = 0;  ///< steps [row * log_every, (row + 1) * log_every)
  Lane lane = 0;
  Step first = 0;  ///< the first of its steps
  Step last = 0;   ///< the last
  Step steps = 0;  ///< how many it computed
  std::uint64_t samples = 0;
  double loss_sum = 0;
  Metrics metrics;
  double lr = 0;     ///< of the last one
  double began = 0;  ///< when the first of them began: seconds since 1970
  double ended = 0;  ///< when the last was made
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RowPart, row, lane, first, last, steps, samples, loss_sum, metrics, lr, began, ended)
};

/// What a worker has done since its last report.
struct WorkDone {
  Step clock = 0;  ///< steps it has finished so far
  std::uint64_t samples = 0;
  double loss_sum = 0;
  Metrics metrics;
  double lr = 0;
  double busy_s = 0;                       ///< how long it computed
  std::uint64_t lanes = 0;                 ///< how many lanes it computed in that time
  std::map<std::string, double> averages;  ///< custom loops, from the chief: the latest means over all workers
  std::vector<RowPart> rows;               ///< all that it holds of rows that the chief has not got
  std::vector<double> phases = {};         ///< seconds in each of kPhaseNames (base/spans.h); empty = not known
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WorkDone, clock, samples, loss_sum, metrics, lr, busy_s, lanes, averages, rows, phases)
};

/// What a worker is doing at the moment of a heartbeat, which its own thread sends: it arrives even when the training
/// thread waits forever.
struct Activity {
  std::string what = {};  ///< "forward", "wait", …; empty = not known, or between two of them
  Step step = 0;
  double for_s = 0;  ///< how long already

  // Of the operation that it is in together with others, and that has lasted longest:
  std::string operation = {};      ///< "all_reduce sum of 61706 f32 (bucket 2)"; empty = none
  std::vector<Rank> workers = {};  ///< ranks that have not begun it
  std::vector<Rank> servers = {};  ///< that have not answered
  double operation_s = 0;          ///< how long it has lasted
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Activity, what, step, for_s, operation, workers, servers, operation_s)
};

/// A GPU of a host, as its driver says.
struct GpuLoad {
  std::string name = {};
  double use = 0;            ///< share of the last moments in which it computed
  std::uint64_t memory = 0;  ///< bytes that it has
  std::uint64_t used = 0;    ///< of them, by whichever processes
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(GpuLoad, name, use, memory, used)
};

/// What a process uses of its host. A member reads it about once a second.
struct HostLoad {
  std::string name = {};       ///< of the host
  std::uint32_t cores = 0;     ///< 0 = nothing of this is known
  double load = 0;             ///< processes that want to run, over the last minute
  std::uint64_t memory = 0;    ///< bytes that the host has
  std::uint64_t free = 0;      ///< of them, what could still be used
  std::uint64_t resident = 0;  ///< bytes of this process in memory
  double cpu_s = 0;            ///< CPU time that this process has had
  std::vector<GpuLoad> gpus = {};
  std::string metrics = {};  ///< host:port of this process's own /metrics; empty = it serves none
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HostLoad, name, cores, load, memory, free, resident, cpu_s, gpus, metrics)
};

/// The clocks of all workers at one moment, from a server, which delays workers and thus knows them.
struct ClockReport {
  std::vector<Step> clocks;  ///< by worker; empty = not known yet
  Step spread_max = 0;       ///< the largest lead that one worker ever had over another
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ClockReport, clocks, spread_max)
};

/// What the chief says about rows of metrics.
struct RowsTaken {
  bool known = false;  ///< false: it does not know yet, or is not the chief
  Step up_to = 0;      ///< it has the rows up to this step
  View back_in = 0;    ///< the view in which training last went back to a checkpoint
  bool ended = false;  ///< there are no steps after `last_step`
  Step last_step = 0;
  bool give_up = false;  ///< rows that lack a part are complete: what is missing will not come
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RowsTaken, known, up_to, back_in, ended, last_step, give_up)
};

struct Heartbeat {
  MemberId member = 0;
  WorkDone work;                  ///< from workers
  ClockReport clocks;             ///< from servers
  ShardReports shards;            ///< from servers: about the shards of which they are primary
  RowsTaken rows;                 ///< from the chief
  std::vector<MemberId> reached;  ///< of those that `HeartbeatReply::apart` named: they answer now
  Activity activity = {};         ///< from workers
  HostLoad load = {};             ///< now and then
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Heartbeat, member, work, clocks, shards, rows, reached, activity, load)
};

/// Whether, and when, the members must form the next view.
enum class Regroup {
  kNo,
  kAfterStep,  ///< a member wants to join or leave: form the next view after a step that all agree on
  kNow,        ///< a member is gone: nothing in this view will be finished
};

struct HeartbeatReply {
  bool stop = false;  ///< end after the current step
  bool over = false;  ///< all workers are done: servers may exit
  std::string abort;  ///< not empty: the job has failed, for this reason; end now
  View view = 0;      ///< the view that `regroup` refers to
  Regroup regroup = Regroup::kNo;
  std::string reason;             ///< of `regroup`
  bool expelled = false;          ///< this process is no longer a member: it was silent for too long, or cut off
  bool leading = true;            ///< false: the master has lost touch with the store, and another one may lead by now
  std::vector<MetricsRow> rows;   ///< for the chief: complete ones that it has not got
  Step rows_taken = 0;            ///< the chief has the rows up to this step: their parts can be forgotten
  std::vector<MemberInfo> apart;  ///< did not answer this process, or it them: to be tried again
  std::string clock_id = {};      ///< own_clock_id() of the master
  std::int64_t clock = 0;         ///< clock_now() of the master, when it answered
  std::uint64_t record = 0;       ///< not 0: send the spans of `record_steps` steps up to `record_until`
  Step record_steps = 0;
  Step record_until = WantedSteps::kNewest;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HeartbeatReply, stop, over, abort, view, regroup, reason, expelled, leading, rows,
                                 rows_taken, apart, clock_id, clock, record, record_steps, record_until)
};

/// Units [first, first + count).
struct UnitRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(UnitRange, first, count)
  bool operator==(const UnitRange&) const = default;
};

/// A request that is sent again, because its answer was lost, keeps its number and gets the same answer.
struct LeaseRequest {
  MemberId member = 0;
  View view = 0;                    ///< of the worker: the request is valid only in that view
  std::uint64_t number = 0;         ///< of this member's requests, from 1 on
  std::vector<UnitRange> finished;  ///< since the last request whose report is saved: see LeaseReply
  std::vector<UnitRange> held;  ///< leased and not finished; what else the master has leased to it is given out again
  std::uint64_t saved = 0;      ///< not 0: the chief ends the pause after this many finished units
  bool more = true;             ///< asks for work
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseRequest, member, view, number, finished, held, saved, more)
};

struct LeaseReply {
  bool over = false;           ///< every unit is finished
  bool save = false;           ///< nobody is at work: all evaluate, the chief saves the state and reports it
  UnitRange range;             ///< empty and not over: others are still at work, or the chief saves; ask again
  std::uint64_t finished = 0;  ///< units that all workers together have finished
  std::uint64_t saved = 0;     ///< what the member's requests up to this number reported, a new master knows too
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseReply, over, save, range, finished, saved)
};

struct RewindRequest {
  MemberId member = 0;
  View view = 0;
  std::uint64_t units = 0;  ///< the first this many are done
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RewindRequest, member, view, units)
};

struct StopRequest {
  std::string reason;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StopRequest, reason)
};

struct CheckpointNow {
  std::string reason;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(CheckpointNow, reason)
};

struct LeaveNotice {
  MemberId member = 0;
  std::string failure;  ///< empty = its work is done, or it was asked to leave
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaveNotice, member, failure)
};

struct ScaleRequest {  ///< 0 = leave the number as it is
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

/// As words: these messages are read by people and their scripts, too.
NLOHMANN_JSON_SERIALIZE_ENUM(JobPhase, {{JobPhase::kGathering, "gathering"},
                                        {JobPhase::kRunning, "running"},
                                        {JobPhase::kWaiting, "waiting"},
                                        {JobPhase::kFailed, "failed"},
                                        {JobPhase::kFinished, "finished"}})

/// A live process of the job.
struct MemberStatus {
  std::uint32_t slot = 0;
  std::int64_t pid = 0;
  std::string host;  ///< where it listens

  // As it reported with its heartbeats; of workers only, where not otherwise said.
  double silent_s = 0;  ///< since the last one; of servers too
  Step clock = 0;       ///< steps that it has finished
  double samples_per_s = 0;
  double lane_s = 0;                ///< its recent time for a lane; 0 = not known
  Lane lanes = 0;                   ///< that it computes in each step; 0 where work is leased
  std::vector<double> phases = {};  ///< seconds so far, by kPhaseNames; empty = not known
  Activity activity = {};
  HostLoad load = {};         ///< of servers too
  std::uint32_t primary = 0;  ///< of servers: shards of which it is the primary
  std::uint32_t copies = 0;   ///< of servers: shards of which it has a copy
  std::string holds = {};     ///< for people: "lanes 0–1", "shards 0, 2; copies of 1, 3"
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(MemberStatus, slot, pid, host, silent_s, clock, samples_per_s, lane_s, lanes, phases,
                                 activity, load, primary, copies, holds)
};

/// How often something happened and how long it took, by length.
struct DurationHistogram {
  std::vector<double> bounds = {};         ///< upper ones, in seconds, growing; what is longer is in the last count
  std::vector<std::uint64_t> counts = {};  ///< of each bound, and of what is longer than all
  double sum = 0;                          ///< seconds
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(DurationHistogram, bounds, counts, sum)

  /// Adds `times` that took `seconds` each.
  void add(double seconds, std::uint64_t times = 1);
  std::uint64_t count() const;
};

/// What has happened under this master. It starts anew with its successor, as counters of a process do.
struct JobCounters {
  std::uint64_t steps = 0;                             ///< made, those that were repeated included
  std::uint64_t samples = 0;                           ///< likewise
  std::map<std::string, std::uint64_t> failures = {};  ///< members that were given up, by "worker died"
  DurationHistogram step_s = {};                       ///< of a step
  DurationHistogram recovery_s = {};                   ///< from a loss to the next step
  double recovering_s = 0;  ///< since a loss after which no step was made yet; 0 = there is none
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JobCounters, steps, samples, failures, step_s, recovery_s, recovering_s)
};

/// Returns the slots of `members`, in their order.
std::vector<std::uint32_t> slots_of(const std::vector<MemberStatus>& members);

struct JobStatus {
  JobPhase state = JobPhase::kGathering;
  std::string reason;  ///< why it is in that state, for people
  View view = 0;
  Plan plan;
  MetricsRow now;                          ///< over the last moments
  std::map<std::string, double> averages;  ///< see WorkDone
  double steps_per_s = 0;                  ///< likewise
  Step spread_max = 0;                     ///< the largest clock spread seen
  std::vector<Step> clocks;
  std::vector<MemberStatus> workers;  ///< in the view, by rank
  std::vector<MemberStatus> servers;  ///< likewise
  std::vector<MemberStatus> others;   ///< workers outside the view: learners and the reserve
  std::vector<Straggler> stragglers;
  std::uint32_t copies_due = 0;      ///< shards of the parameters that do not have all their copies yet
  std::uint32_t wanted_workers = 0;  ///< how many there should be: the launcher starts and ends processes accordingly
  std::uint32_t wanted_servers = 0;
  nlohmann::json result;
  JobCounters counters = {};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JobStatus, state, reason, view, plan, now, averages, steps_per_s, spread_max, clocks,
                                 workers, servers, others, stragglers, copies_due, wanted_workers, wanted_servers,
                                 result, counters)
};

}  // namespace trireme::cluster
