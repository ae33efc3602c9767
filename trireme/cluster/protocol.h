#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/base/units.h"
#include "trireme/net/address.h"

namespace trireme::cluster {

enum class Role { kWorker, kServer };

std::string to_string(Role role);

/// What members and observers may ask the master.
enum Request : std::uint16_t {
  kJoin = 1,       ///< JoinRequest -> ViewInfo, when everybody is here
  kHeartbeat = 2,  ///< Heartbeat -> HeartbeatReply
  kPlan = 3,       ///< Plan -> Done: how long the job is; all workers say the same
  kLease = 4,      ///< LeaseRequest -> LeaseReply: work for asynchronous workers
  kStatus = 5,     ///< Done -> JobStatus: for anybody who knows the secret
  kResult = 6,     ///< ResultReport -> Done: what the job achieved, from the chief
  kStop = 7,       ///< StopRequest -> Done: finish the step and end
  kLeave = 8,      ///< LeaveNotice -> Done: a member ends on purpose
};

struct Done {
  bool ok = true;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Done, ok)
};

struct JoinRequest {
  Role role = Role::kWorker;
  Rank rank = 0;
  std::int64_t pid = 0;
  net::Address address;  ///< where it listens: servers for workers, workers for each other
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinRequest, role, rank, pid, address)
};

/// A numbered membership of the job.
struct ViewInfo {
  View view = 0;
  std::uint32_t workers = 0;
  std::vector<net::Address> servers;           ///< by rank
  std::vector<net::Address> worker_addresses;  ///< by rank: where they listen for each other
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ViewInfo, view, workers, servers, worker_addresses)
};

/// How long the job is. A unit is one lane of one step: what an asynchronous worker takes at a time.
struct Plan {
  Step steps = 0;
  Step steps_per_epoch = 0;
  std::uint64_t batch = 0;
  Lane lanes = 1;
  bool leased = false;   ///< asynchronous: units are given out by the master
  Step log_every = 10;   ///< global steps per row of metrics
  std::string strategy;  ///< how gradients become an update, for people: "allreduce", "ps:bsp"
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Plan, steps, steps_per_epoch, batch, lanes, leased, log_every, strategy)
  bool operator==(const Plan&) const = default;
};

/// What a worker has done since its last report.
struct WorkDone {
  Step clock = 0;  ///< steps it has finished so far
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double correct = 0;  ///< negative = not a classification
  double lr = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WorkDone, clock, samples, loss_sum, correct, lr)
};

/// The clocks of all workers at one moment, from a server: it holds them back, so it knows.
struct ClockReport {
  std::vector<Step> clocks;  ///< by worker; empty = nothing known yet
  Step spread_max = 0;       ///< the largest lead one worker ever had over another
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ClockReport, clocks, spread_max)
};

struct Heartbeat {
  Role role = Role::kWorker;
  Rank rank = 0;
  WorkDone work;       ///< from workers
  ClockReport clocks;  ///< from servers
  bool last = false;   ///< complete the row of metrics in progress
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Heartbeat, role, rank, work, clocks, last)
};

/// One line of metrics over all workers.
struct MetricsRow {
  Step step = 0;
  double epoch = 0;
  std::uint64_t samples = 0;
  double loss = 0;
  double accuracy = 0;
  double samples_per_s = 0;
  double lr = 0;
  Step clock_min = 0;
  Step clock_max = 0;
  double seconds = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(MetricsRow, step, epoch, samples, loss, accuracy, samples_per_s, lr, clock_min,
                                 clock_max, seconds)
};

struct HeartbeatReply {
  bool stop = false;             ///< end after the current step
  bool over = false;             ///< all workers are done: servers may go
  std::string abort;             ///< not empty: the job has failed, for this reason; end now
  std::vector<MetricsRow> rows;  ///< for the chief: rows completed since its last heartbeat
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HeartbeatReply, stop, over, abort, rows)
};

/// Units [first, first + count).
struct UnitRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(UnitRange, first, count)
  bool operator==(const UnitRange&) const = default;
};

struct LeaseRequest {
  Rank worker = 0;
  std::vector<UnitRange> finished;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseRequest, worker, finished)
};

struct LeaseReply {
  bool over = false;           ///< every unit is finished
  UnitRange range;             ///< empty and not over: others are still at work on the last units; ask again
  std::uint64_t finished = 0;  ///< units that all workers together have finished
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaseReply, over, range, finished)
};

struct StopRequest {
  std::string reason;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StopRequest, reason)
};

struct LeaveNotice {
  Role role = Role::kWorker;
  Rank rank = 0;
  std::string failure;  ///< empty = its work is done
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LeaveNotice, role, rank, failure)
};

struct ResultReport {
  nlohmann::json result;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ResultReport, result)
};

enum class JobState { kGathering, kRunning, kFailed, kFinished };

std::string to_string(JobState state);

struct JobStatus {
  JobState state = JobState::kGathering;
  std::string reason;  ///< why it is in that state, for people
  View view = 0;
  Plan plan;
  MetricsRow now;       ///< over the last moments
  Step spread_max = 0;  ///< the largest clock spread seen
  std::vector<Step> clocks;
  nlohmann::json result;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JobStatus, state, reason, view, plan, now, spread_max, clocks, result)
};

}  // namespace trireme::cluster
