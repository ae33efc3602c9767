#include "trireme/cluster/membership.h"

#include <unistd.h>

#include <condition_variable>

#include "trireme/base/error.h"
#include "trireme/base/log.h"

namespace trireme::cluster {

Membership::Membership(net::Loop& loop, MembershipOptions options, Events events)
    : options_(std::move(options)), events_(std::move(events)) {
  net::Address master = options_.master;
  master.unix_name.clear();
  const auto transport = options_.transport == net::Transport::kShm ? net::Transport::kAuto : options_.transport;
  connection_ =
      net::Connection::open(loop, master,
                            {.secret = options_.secret,
                             .transport = transport,
                             .peer_name = "the master",
                             .deadline = Deadline::in(std::min<std::chrono::milliseconds>(options_.join_within, 30s))});
  const JoinRequest request{
      .role = options_.role, .rank = options_.rank, .pid = ::getpid(), .address = options_.own_address};
  view_ = connection_->call<ViewInfo>(kJoin, 0, request, Deadline::in(options_.join_within), "the request to join");
  log_info("joined the job", {{"view", view_.view}, {"workers", view_.workers}, {"servers", view_.servers.size()}});
  thread_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

Membership::~Membership() {
  thread_.request_stop();
  connection_->close();  // ends a heartbeat on its way
  if (thread_.joinable()) thread_.join();
}

void Membership::set_plan(const Plan& plan) {
  connection_->call<Done>(kPlan, view_.view, plan, Deadline::in(options_.master_silent_after), "the plan");
}

void Membership::report(const WorkDone& work) {
  const std::lock_guard lock(mutex_);
  unreported_.clock = work.clock;
  unreported_.lr = work.lr;
  unreported_.samples += work.samples;
  unreported_.loss_sum += work.loss_sum;
  unreported_.correct += work.correct;
}

LeaseReply Membership::lease(const std::vector<UnitRange>& finished) {
  return connection_->call<LeaseReply>(kLease, view_.view, LeaseRequest{options_.rank, finished},
                                       Deadline::in(options_.master_silent_after), "the request for work");
}

void Membership::post_result(const nlohmann::json& result) {
  connection_->call<Done>(kResult, view_.view, ResultReport{result}, Deadline::in(options_.master_silent_after),
                          "the result");
}

void Membership::request_stop(const std::string& reason) {
  connection_->call<Done>(kStop, view_.view, StopRequest{reason}, Deadline::in(options_.master_silent_after),
                          "the request to stop");
}

void Membership::leave(const std::string& failure) {
  if (options_.role == Role::kWorker && failure.empty()) send_heartbeat();
  thread_.request_stop();
  connection_->call<Done>(kLeave, view_.view, LeaveNotice{options_.role, options_.rank, failure},
                          Deadline::in(options_.master_silent_after), "the goodbye");
}

void Membership::beat(const std::stop_token& stop) {
  net::name_thread("heartbeat");
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock waiting(mutex);
  while (!wake.wait_for(waiting, stop, options_.heartbeat_every, [] { return false; }) && !stop.stop_requested()) {
    try {
      send_heartbeat();
    } catch (const std::exception& problem) {
      if (stop.stop_requested()) return;
      log_error("lost the master", {{"reason", problem.what()}});
      const std::lock_guard lock(beat_mutex_);
      tell_abort(problem.what());
      return;
    }
  }
}

void Membership::send_heartbeat(bool last) {
  const std::lock_guard one_at_a_time(beat_mutex_);
  Heartbeat heartbeat{.role = options_.role, .rank = options_.rank, .last = last};
  {
    const std::lock_guard lock(mutex_);
    heartbeat.work = unreported_;
    unreported_ = {.clock = unreported_.clock, .lr = unreported_.lr};
  }
  if (events_.clocks) heartbeat.clocks = events_.clocks();
  const auto reply = connection_->call<HeartbeatReply>(kHeartbeat, view_.view, heartbeat,
                                                       Deadline::in(options_.master_silent_after), "a heartbeat");
  for (const MetricsRow& row : reply.rows) {
    if (events_.on_row) events_.on_row(row);
  }
  if (reply.stop && !std::exchange(stop_told_, true) && events_.on_stop) events_.on_stop();
  if (reply.over && !std::exchange(over_told_, true) && events_.on_over) events_.on_over();
  if (!reply.abort.empty()) tell_abort(reply.abort);
}

void Membership::tell_abort(const std::string& reason) {
  if (!std::exchange(abort_told_, true) && events_.on_abort) events_.on_abort(reason);
}

}  // namespace trireme::cluster
