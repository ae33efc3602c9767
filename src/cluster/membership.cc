#include "cluster/membership.h"

#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "cluster/host_load.h"

namespace trireme::cluster {
namespace {

constexpr std::size_t kMostUnsaved = 10'000;  // reports; a new master leases again what older ones told
constexpr auto kRowsWithin = 2s;              // other workers report within a heartbeat or two, unless they died
constexpr auto kRowsPoll = 5ms;
constexpr auto kTellLoadEvery = 1s;   // of this host and process
constexpr auto kRegroupWithin = 24h;  // the master gives up long before, and says so

// How long it may take to connect to the next master. At first not long: a host that is gone does not answer, and the
// next master may be another one by then. A distant host needs several round trips: twice as long after each timeout.
constexpr std::chrono::milliseconds kFirstConnectWithin = 500ms;
constexpr std::chrono::milliseconds kLastConnectWithin = 8s;

void log_learner(const ViewInfo& view) {
  log_info("became_learner", "catches up with the job as a learner",
           {{"view", view.view}, {"workers", view.workers.size()}, {"servers", view.servers.size()}});
}

}  // namespace

Membership::Membership(net::EventLoop& loop, MembershipOptions options, Events events)
    : options_(std::move(options)),
      events_(std::move(events)),
      loop_(loop),
      last_address_(options_.master),
      probe_(loop, {.secret = options_.secret, .transport = options_.transport}) {
  if (!options_.metrics.empty()) {
    metrics_ = std::make_unique<MemberMetrics>(parse_metrics_address(options_.metrics), options_.role, options_.slot);
    log_info("metrics_served", "serves its metrics", {{"address", metrics_->address()}});
  }
  const Deadline deadline = Deadline::in(std::min<std::chrono::milliseconds>(options_.join_within, 30s));
  if (options_.find_master) {  // ask who leads now: the master this process was started with may be gone
    find_next_master(nullptr, deadline, "the store has named none since this process started");
  } else {
    connection_ = connect(options_.master, deadline, /*await_listener=*/true);
  }
  const JoinReply reply = join({.member = options_.member, .as_learner = options_.as_learner}, options_.join_within);
  if (reply.over) fail<StaleView>("the job was over before this process could join it");
  if (reply.learner) {
    log_learner(reply.view);
  } else {
    log_info("joined", "joined the job",
             {{"view", view_.view}, {"workers", view_.workers.size()}, {"servers", view_.servers.size()}});
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

Membership::~Membership() {
  closing_.store(true);
  thread_.request_stop();
  connection()->close();  // ends a heartbeat in progress
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<net::Connection> Membership::connect(const net::Address& address, Deadline deadline,
                                                     bool await_listener) {
  net::Address master = address;
  master.unix_name.clear();  // messages are small: shared memory is not worth it
  const auto transport = options_.transport == net::Transport::kShm ? net::Transport::kAuto : options_.transport;
  return net::Connection::open(loop_, master,
                               {.secret = options_.secret,
                                .transport = transport,
                                .role = "master",
                                .peer_name = "the master",
                                .deadline = deadline,
                                .await_listener = await_listener});
}

std::shared_ptr<net::Connection> Membership::connection() const {
  const MutexLock lock(mutex_);
  return connection_;
}

std::chrono::milliseconds Membership::master_patience() const {
  return options_.find_master ? options_.master_hangs_after : options_.master_silent_after;
}

/// Asks the master, or its successor if it dies meanwhile.
template <typename Reply, typename Ask>
Reply Membership::ask(Request kind, const Ask& body, Deadline deadline, const std::string& what) {
  for (;;) {
    const auto current = connection();
    try {
      return current->call<Reply>(kind, view().view, body, deadline, what);
    } catch (const PeerLost& gone) {
      if (!options_.find_master || closing_.load()) throw;
      find_next_master(current, Deadline::in(options_.without_master_within), gone.what());
      deadline = Deadline::in(deadline.allowed());  // the search may have used up the time for the answer
    }
  }
}

/// Where the store says, or, while that is out of reach, where the master was: it does not need the store to live.
std::optional<net::Address> Membership::where_is_master() const {
  try {
    return options_.find_master();
  } catch (const Corrupt&) {
    throw;  // it can be reached, and somebody should look at what it holds
  } catch (const Error& away) {
    if (last_address_.port == 0) throw;
    log_debug("no_master_yet", "the store is out of reach; tries the last known address of the master",
              {{"reason", away.what()}});
    net::Address there = last_address_;
    there.identity.clear();  // whoever leads may have been started anew, at the same place
    return there;
  }
}

void Membership::use_master_at(const net::Address& address, std::chrono::milliseconds patience) {
  // If nobody listens there, the address is the old master's: the successor will be at another one.
  auto next = connect(address, Deadline::in(patience), /*await_listener=*/false);
  log_info("master_found", "found the master", {{"address", address.text()}});
  last_address_ = address;
  const MutexLock lock(mutex_);
  connection_ = std::move(next);
}

/// A master that has lost touch with the store answers as always, but another one may lead without its knowing. Asks
/// the store now and then, and moves on to the leader; requests on their way are repeated there.
void Membership::follow_leader() {
  if (!options_.find_master || Deadline::Clock::now() < follow_at_) return;
  const auto former = connection();
  try {
    const MutexLock one_search(search_mutex_);
    const auto address = options_.find_master();
    if (address && address->text() != last_address_.text()) use_master_at(*address, kFirstConnectWithin);
  } catch (const Error& problem) {  // the store is away for this process too, or the leader is not up yet
    log_debug("no_master_yet", "cannot ask who leads", {{"reason", problem.what()}});
  }
  if (connection() != former) former->close();
  follow_at_ = Deadline::Clock::now() + options_.master_hangs_after;
}

void Membership::find_next_master(const std::shared_ptr<net::Connection>& lost, Deadline deadline,
                                  const std::string& reason) {
  const MutexLock one_search(search_mutex_);
  if (connection() != lost) return;  // another thread has found it
  if (lost) log_warn("master_lost", "lost the master; looking for its successor", {{"reason", reason}});
  std::string last_problem = reason;
  auto patience = kFirstConnectWithin;
  while (!deadline.passed() && !closing_.load()) {
    try {
      if (const auto address = where_is_master()) return use_master_at(*address, patience);
    } catch (const Corrupt& problem) {  // the next master will write its own
      if (std::exchange(last_problem, problem.what()) != problem.what()) {
        log_warn("master_address_invalid", "the store has no valid address of the master; will ask again",
                 {{"reason", problem.what()}});
      }
    } catch (const Timeout& problem) {  // it may be far away, or busy
      last_problem = problem.what();
      patience = std::min(2 * patience, kLastConnectWithin);
      log_debug("no_master_yet", "no master yet", {{"reason", problem.what()}});
    } catch (const Error& problem) {  // the master, or the store, is not up yet
      last_problem = problem.what();
      log_debug("no_master_yet", "no master yet", {{"reason", problem.what()}});
    }
    std::this_thread::sleep_for(20ms);
  }
  fail<PeerLost>("no master took over within {:.0f} s, and TRIREME_WITHOUT_MASTER says to wait no longer: {}",
                 seconds(deadline.allowed()), last_problem);
}

JoinReply Membership::join(JoinRequest request, std::chrono::milliseconds within) {
  request.role = options_.role;
  request.slot = options_.slot;
  request.pid = ::getpid();
  request.address = options_.own_address;
  const auto reply = ask<JoinReply>(kJoin, request, Deadline::in(within), "the request to join");
  if (reply.over) return reply;
  const MutexLock lock(mutex_);
  member_ = reply.member;
  learner_ = reply.learner;
  view_ = reply.view;
  launch_ = reply.launch;
  hang_after_ = std::chrono::milliseconds(reply.hang_after_ms);
  return reply;
}

std::chrono::milliseconds Membership::hang_after() const {
  const MutexLock lock(mutex_);
  return hang_after_;
}

bool Membership::regroup(const std::string& reason, bool done, std::vector<MemberId> unreachable) {
  const bool as_learner = options_.as_learner && !learner() && !done;  // one that was expelled must catch up again
  const JoinReply reply = join({.member = member(),
                                .view = view().view,
                                .reason = reason,
                                .done = done,
                                .as_learner = as_learner,
                                .unreachable = std::move(unreachable)},
                               kRegroupWithin);
  if (reply.learner) {
    log_learner(reply.view);
  } else if (!reply.over) {
    log_info("view_entered", "entered another view",
             {{"view", reply.view.view}, {"workers", reply.view.workers.size()}, {"rank", rank()}});
  }
  return !reply.over;
}

bool Membership::learner() const {
  const MutexLock lock(mutex_);
  return learner_;
}

bool Membership::refresh_view() {
  return !join({.member = member(), .view = view().view, .reason = "looks at the view", .as_learner = true},
               kRegroupWithin)
              .over;
}

ViewInfo Membership::view() const {
  const MutexLock lock(mutex_);
  return view_;
}

std::string Membership::launch() const {
  const MutexLock lock(mutex_);
  return launch_;
}

MemberId Membership::member() const {
  const MutexLock lock(mutex_);
  return member_;
}

Rank Membership::rank() const {
  const MutexLock lock(mutex_);
  const auto& members = options_.role == Role::kWorker ? view_.workers : view_.servers;
  const auto found = std::ranges::find(members, member_, &MemberInfo::id);
  TRIREME_CHECK(found != members.end(), "member {} is not in view {}", member_, view_.view);
  return static_cast<Rank>(found - members.begin());
}

void Membership::set_plan(const Plan& plan) {
  ask<Done>(kPlan, plan, Deadline::in(options_.master_silent_after), "the plan");
}

void Membership::report(WorkDone work) {
  const MutexLock lock(mutex_);
  unreported_.clock = work.clock;
  unreported_.lr = work.lr;
  unreported_.samples += work.samples;
  unreported_.loss_sum += work.loss_sum;
  add(unreported_.metrics, work.metrics);
  unreported_.busy_s += work.busy_s;
  unreported_.lanes += work.lanes;
  unreported_.phases.resize(std::max(unreported_.phases.size(), work.phases.size()), 0.0);
  for (std::size_t phase = 0; phase < work.phases.size(); ++phase) unreported_.phases[phase] += work.phases[phase];
  if (!work.rows.empty()) unreported_.rows = std::move(work.rows);
  for (const auto& [name, value] : work.averages) unreported_.averages[name] = value;
}

void Membership::tell_activity(std::function<Activity()> activity) {
  const MutexLock lock(mutex_);
  activity_ = std::move(activity);
}

void Membership::tell_spans(std::function<Recording(const WantedSteps&)> recording) {
  const MutexLock lock(mutex_);
  recording_ = std::move(recording);
}

void Membership::take_rows_after(Step step, View back_in) {
  const MutexLock lock(mutex_);
  rows_ = {.known = true, .up_to = step, .back_in = std::max(rows_.back_in, back_in)};
  if (back_in > 0) unreported_.rows.clear();
}

Step Membership::rows_taken() const {
  const MutexLock lock(mutex_);
  return rows_taken_;
}

void Membership::finish_rows(Step step) {
  const auto missing = [&] {
    const MutexLock lock(mutex_);
    rows_.ended = true;
    rows_.last_step = step;
    return rows_.known && rows_.up_to < step;
  };
  const Deadline deadline = Deadline::in(kRowsWithin);
  while (missing() && !deadline.passed()) {
    send_heartbeat();
    std::this_thread::sleep_for(kRowsPoll);
  }
  if (!missing()) return;
  {
    const MutexLock lock(mutex_);
    rows_.give_up = true;
  }
  send_heartbeat();
}

LeaseReply Membership::lease(LeaseRequest request) {
  {
    const MutexLock lock(mutex_);
    request.member = member_;
    request.view = view_.view;
    request.number = ++lease_requests_;
    if (std::exchange(leases_of_, view_.view) != view_.view) unsaved_.clear();  // a view begins with what is saved
    if (!request.finished.empty()) unsaved_.push_back({request.number, std::move(request.finished)});
    if (unsaved_.size() > kMostUnsaved) unsaved_.pop_front();
    request.finished.clear();
    for (const FinishedUnits& finished : unsaved_) {
      request.finished.insert(request.finished.end(), finished.units.begin(), finished.units.end());
    }
  }
  auto reply = ask<LeaseReply>(kLease, request, Deadline::in(options_.master_silent_after), "the request for work");
  const MutexLock lock(mutex_);
  while (!unsaved_.empty() && unsaved_.front().request <= reply.saved) unsaved_.pop_front();
  return reply;
}

void Membership::rewind(std::uint64_t units) {
  const RewindRequest request{.member = member(), .view = view().view, .units = units};
  ask<Done>(kRewind, request, Deadline::in(options_.master_silent_after), "the way back to a checkpoint");
}

void Membership::post_result(const nlohmann::json& result) {
  ask<Done>(kResult, ResultReport{result}, Deadline::in(options_.master_silent_after), "the result");
}

void Membership::request_stop(const std::string& reason) {
  ask<Done>(kStop, StopRequest{reason}, Deadline::in(options_.master_silent_after), "the request to stop");
}

void Membership::leave(const std::string& failure) {
  left_.store(true);
  if (options_.role == Role::kWorker && failure.empty()) send_heartbeat();
  thread_.request_stop();
  ask<Done>(kLeave, LeaveNotice{member(), failure}, Deadline::in(options_.master_silent_after), "the goodbye");
}

void Membership::beat(const std::stop_token& stop) {
  net::name_thread("heartbeat");
  while (!sleep_for(stop, options_.heartbeat_every)) {
    try {
      send_heartbeat();
    } catch (const std::exception& problem) {
      if (stop.stop_requested()) return;
      log_error("master_lost", "lost the master", {{"reason", problem.what()}});
      const MutexLock lock(beat_mutex_);
      tell_abort(problem.what());
      return;
    }
  }
}

void Membership::send_heartbeat() {
  const MutexLock one_at_a_time(beat_mutex_);
  Heartbeat heartbeat{.reached = probe_.take_reached()};
  {
    const MutexLock lock(mutex_);
    heartbeat.member = member_;
    heartbeat.work = unreported_;
    heartbeat.rows = rows_;
    if (activity_) heartbeat.activity = activity_();
    unreported_ = {.clock = unreported_.clock, .lr = unreported_.lr, .rows = std::move(unreported_.rows)};
  }
  if (const auto now = Deadline::Clock::now(); now - load_told_at_ >= kTellLoadEvery) {
    load_told_at_ = now;
    heartbeat.load = host_load();
    if (metrics_) heartbeat.load.metrics = metrics_->address();
  }
  if (events_.clocks) heartbeat.clocks = events_.clocks();
  if (events_.shards) heartbeat.shards = events_.shards();
  if (metrics_) metrics_->add(heartbeat, learner() ? 0 : view().view);
  const auto reply = tell(heartbeat);
  if (metrics_) metrics_->note_answer();
  take_rows(reply);
  if (reply.stop && !std::exchange(stop_told_, true) && events_.on_stop) events_.on_stop();
  if (reply.over && !std::exchange(over_told_, true) && events_.on_over) events_.on_over();
  if (!reply.abort.empty()) tell_abort(reply.abort);
  if (heartbeat.member == member()) tell_regroup(reply);
  probe_.set_targets(reply.apart);
  if (reply.record != 0) send_spans(heartbeat.member, reply);
  if (!reply.leading) follow_leader();
}

/// The chief gets a row again until the master knows that it has it.
void Membership::take_rows(const HeartbeatReply& reply) {
  std::vector<MetricsRow> fresh;
  {
    const MutexLock lock(mutex_);
    rows_taken_ = reply.rows_taken;
    for (const MetricsRow& row : reply.rows) {
      if (!rows_.known || row.step <= rows_.up_to) continue;
      rows_.up_to = row.step;
      fresh.push_back(row);
    }
  }
  if (!events_.on_row) return;
  for (const MetricsRow& row : fresh) events_.on_row(row);
}

void Membership::send_spans(MemberId self, const HeartbeatReply& reply) {
  std::function<Recording(const WantedSteps&)> recording;
  {
    const MutexLock lock(mutex_);
    recording = recording_;
  }
  SpanReport report{.member = self, .request = reply.record, .clock = clock_.at(clock_now())};
  if (recording) report.recording = recording({.count = reply.record_steps, .until = reply.record_until});
  try {
    ask<Done>(kSpans, report, Deadline::in(master_patience()), "the spans of the last steps");
  } catch (const Timeout& problem) {  // the next heartbeat finds another master, or none
    log_warn("spans_not_told", "could not tell what the last steps were like", {{"reason", problem.what()}});
  }
}

/// Sends a heartbeat. A timeout is not final if there may be another master.
HeartbeatReply Membership::tell(const Heartbeat& heartbeat) {
  for (;;) {
    try {
      const std::int64_t sent = clock_now();
      auto reply = ask<HeartbeatReply>(kHeartbeat, heartbeat, Deadline::in(master_patience()), "a heartbeat");
      clock_.add(reply.clock_id, sent, reply.clock, clock_now());
      return reply;
    } catch (const Timeout&) {  // the connection is closed by then
      if (!options_.find_master || closing_.load()) throw;
    }
  }
}

void Membership::tell_regroup(const HeartbeatReply& reply) {
  if (!events_.on_regroup) return;
  const View ours = view().view;
  std::pair<View, Regroup> news{reply.view, reply.regroup};
  if (reply.expelled) news = {ours, Regroup::kNow};
  if (news.second == Regroup::kNo || news.first != ours || regroup_told_ == news) return;
  regroup_told_ = news;
  const std::string reason =
      reply.expelled ? "this process is no member any more: it was silent for too long, or cut off" : reply.reason;
  events_.on_regroup(news.first, news.second, reason);
}

void Membership::tell_abort(const std::string& reason) {
  if (!std::exchange(abort_told_, true) && events_.on_abort) events_.on_abort(reason);
}

}  // namespace trireme::cluster
