#include "job/job_session.h"

#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "cluster/master_finder.h"
#include "cluster/own_host.h"
#include "collective/engines.h"
#include "job/termination.h"
#include "master/master.h"
#include "observe/thread_stacks.h"
#include "ps/server.h"

namespace trireme {

namespace {

/// A server inside this process, as a member of the job.
class LocalServer {
 public:
  LocalServer(const cluster::JobEnvironment& place, const cluster::OwnHost& own, std::uint32_t slot,
              std::filesystem::path checkpoints)
      : server_({.service = {.listener = {.name = "server",
                                          .host = own.listen,
                                          .advertise = own.advertise,
                                          .secret = place.secret,
                                          .allow_plain = place.transport == net::Transport::kTcp}},
                 .rank = slot,
                 .transport = place.transport,
                 .checkpoints = std::move(checkpoints)}),
        serve_([this, place, slot](const std::stop_token& stop) { serve(place, slot, stop); }) {}

  /// Waits until the job is over: others may still need the parameters.
  void await_end(Deadline deadline) {
    const MutexLock lock(mutex_);
    ended_.wait(mutex_, deadline, [this]() TRIREME_REQUIRES(mutex_) { return over_; });
  }

 private:
  void serve(const cluster::JobEnvironment& place, std::uint32_t slot, const std::stop_token& stop) {
    try {
      cluster::Membership member(loop_,
                                 {.role = cluster::Role::kServer,
                                  .slot = slot,
                                  .master = place.master,
                                  .own_address = server_.address(),
                                  .secret = place.secret,
                                  .transport = place.transport,
                                  .metrics = place.metrics},
                                 {.on_abort = [this](const std::string&) { end(); },
                                  .on_over = [this] { end(); },
                                  .clocks =
                                      [this] {
                                        const auto clocks = server_.clocks();
                                        return cluster::ClockReport{clocks.finished, clocks.spread_max};
                                      },
                                  .shards =
                                      [this] {
                                        const ps::ServerStatus status = server_.status();
                                        return cluster::ShardReports{status.view, status.replicas};
                                      }});
      const cluster::ViewInfo view = member.view();
      server_.enter(view, view.servers[member.rank()].id);
      Mutex mutex;
      const MutexLock lock(mutex);
      StoppableCondition().wait(mutex, stop, [] { return false; });
    } catch (const std::exception& problem) {
      log_error("server_failed", "the server in this process failed", {{"reason", problem.what()}});
    }
    end();
  }

  void end() {
    const MutexLock lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }

  ps::Server server_;
  net::EventLoop loop_{"server-net"};
  Mutex mutex_;
  Condition ended_;
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  std::jthread serve_;  // joins for the server, and stays its member
};

}  // namespace

/// Master and servers inside this process: all of it when alone; else what its launcher has no process for.
struct JobSession::LocalCluster {
  std::unique_ptr<master::Master> master;
  std::vector<std::unique_ptr<LocalServer>> servers;
};

namespace {

constexpr auto kConnectTime = 60s;  // workers may connect late: some read their data first
constexpr auto kMasterNamedIn = 30s;
constexpr auto kOthersEndIn = 60s;
constexpr auto kStepTime = 600s;  // other workers may be slow, or evaluating; the master notices those that hang

/// The chief writes the files; a worker that was not told where has no folder.
std::optional<observe::RunFolder> open_folder(const cluster::JobEnvironment& place) {
  if (place.run_folder.empty() && place.rank != 0) return std::nullopt;
  if (place.run_folder.empty()) return observe::RunFolder::create({});
  return observe::RunFolder::open(place.run_folder);
}

collective::EndpointOptions endpoint_options(const cluster::JobEnvironment& place) {
  const auto own =
      cluster::find_own_host(place, cluster::make_master_finder(place.store), Deadline::in(kMasterNamedIn));
  return {.host = own.listen,
          .advertise = own.advertise,
          .secret = place.secret,
          .allow_plain = place.transport == net::Transport::kTcp};
}

}  // namespace

namespace {

cluster::JobEnvironment place_of(std::optional<cluster::JobEnvironment> place) {
  if (!place) return {.secret = random_hex(32), .metrics = cluster::read_metrics()};
  if (place->role != cluster::Role::kWorker) {
    fail<InvalidArgument>("this process has the role of a server: start 'trireme serve' here, not a training program");
  }
  return std::move(*place);
}

}  // namespace

JobSession::JobSession(std::optional<cluster::JobEnvironment> place, const JobHosting& hosting)
    : alone_(!place.has_value()),
      place_(place_of(std::move(place))),
      folder_(open_folder(place_)),
      endpoint_(endpoint_options(place_)) {
  if (alone_ || place_.hosts_master) start_master(hosting);
  if (alone_ || !place_.own_servers.empty()) start_servers();
  membership_ = std::make_unique<cluster::Membership>(
      loop_,
      cluster::MembershipOptions{.role = cluster::Role::kWorker,
                                 .slot = place_.rank,
                                 .master = place_.master,
                                 .find_master = cluster::make_master_finder(place_.store),
                                 .own_address = endpoint_.address(),
                                 .as_learner = true,
                                 .secret = place_.secret,
                                 .transport = place_.transport,
                                 .without_master_within = cluster::without_master_within(),
                                 .metrics = place_.metrics},
      cluster::Membership::Events{.on_abort = [this](const std::string& reason) { abort(reason); },
                                  .on_stop = [this] { stop_.store(true); },
                                  .on_row =
                                      [this](const MetricsRow& row) {
                                        const MutexLock lock(mutex_);
                                        rows_.push_back(row);
                                      },
                                  .on_regroup = [this](View view, cluster::Regroup when,
                                                       const std::string& reason) { on_regroup(view, when, reason); }});
  membership_->tell_activity([this] {  // of a loop that does not tell its phases
    cluster::Activity activity = with_waits({});
    if (!activity.operation.empty()) activity.what = "wait";
    activity.for_s = activity.operation_s;
    return activity;
  });
  note_view();
  if (!alone_ && folder_) observe::allow_stack_dumps(folder_->stacks(), fmt::format("worker {}", place_.rank));
  if (hosting.on_begun) hosting.on_begun();
}

/// A learner is in no view.
void JobSession::note_view() {
  const View entered = learner() ? 0 : view().view;
  const MutexLock lock(mutex_);
  entered_ = entered;
}

const std::string& JobSession::take_train_options() {
  options_taken_.store(true);
  return place_.train_options;
}

JobSession::~JobSession() {
  if (!alone_ && membership_ && !membership_->left() && std::uncaught_exceptions() == 0) {
    log_warn("ended_without_leaving",
             "ends without a goodbye: the others take it for dead; call job->leave(), or world->finish(), at the end");
  }
  membership_.reset();
  if (!place_.train_options.empty() && !options_taken_.load()) {
    log_warn("options_not_used", "flags for a Trainer were given to 'trireme run', but this program has none",
             {{"flags", place_.train_options}});
  }
  if (local_ && !alone_) {
    for (const auto& server : local_->servers) server->await_end(Deadline::in(kOthersEndIn));
    local_->servers.clear();
  }
  if (local_ && !alone_ && local_->master) {  // the others still have to learn how it ended
    const Deadline deadline = Deadline::in(3s);
    while (!local_->master->no_members_left() && !deadline.passed()) std::this_thread::sleep_for(20ms);
  }
  local_.reset();
}

void JobSession::start_master(const JobHosting& hosting) {
  local_ = std::make_unique<LocalCluster>();
  const net::ServiceOptions service{.listener = {.name = "master",
                                                 .host = alone_ ? "127.0.0.1" : place_.master.host,
                                                 .port = place_.master.port,
                                                 .secret = place_.secret}};
  local_->master = std::make_unique<master::Master>(
      master::MasterOptions{.service = service, .shape = {.workers = place_.workers, .servers = place_.servers}});
  place_.master = local_->master->address();
  if (hosting.on_listening) {
    hosting.on_listening(place_.master, folder_ ? std::filesystem::absolute(folder_->path()).string() : "");
  }
}

void JobSession::start_servers() {
  if (!local_) local_ = std::make_unique<LocalCluster>();
  const auto own =
      cluster::find_own_host(place_, cluster::make_master_finder(place_.store), Deadline::in(kMasterNamedIn));
  const std::vector<std::uint32_t> slots = alone_ ? std::vector<std::uint32_t>{0} : place_.own_servers;
  for (const std::uint32_t slot : slots) {
    local_->servers.push_back(std::make_unique<LocalServer>(
        place_, alone_ ? cluster::OwnHost{.listen = "127.0.0.1", .advertise = "127.0.0.1"} : own, slot,
        folder_ ? folder_->checkpoints() : std::filesystem::path()));
  }
}

namespace {

/// Over an engine that has its own ranks: they have to be ours.
std::unique_ptr<collective::Communicator> connect_by_engine(const std::string& name,
                                                            const collective::CommunicatorOptions& options) {
  auto engine = collective::make_engine(name, Deadline::in(options.connect_within));
  if (engine->rank() != options.rank || engine->size() != options.members.size()) {
    fail<InvalidArgument>(
        "this process is worker {} of {}, but rank {} of {} in {}: it has to start one process per worker, no more and "
        "no less",
        options.rank, options.members.size(), engine->rank(), engine->size(), name);
  }
  log_info("engine_connected", "the ranks are connected",
           {{"engine", name}, {"rank", engine->rank()}, {"ranks", engine->size()}});
  return std::make_unique<collective::Communicator>(std::move(engine), options);
}

}  // namespace

cluster::Activity JobSession::with_waits(cluster::Activity activity) const {
  std::optional<AwaitedWork> work = waits_.longest();
  if (!work) return activity;
  activity.operation = std::move(work->what);
  activity.workers = std::move(work->workers);
  activity.servers = std::move(work->servers);
  activity.operation_s = work->for_s;
  return activity;
}

collective::Communicator& JobSession::ranks() {
  if (ranks_) return *ranks_;
  if (learner() && !regroup("takes part")) fail<StaleView>("the job was over before this process could take part");
  const cluster::ViewInfo members = view();
  const collective::CommunicatorOptions options{.rank = rank(),
                                                .view = members.view,
                                                .members = members.worker_addresses(),
                                                .transport = place_.transport,
                                                .connect_within = kConnectTime,
                                                .deadline = kStepTime,
                                                .bits_per_second = place_.bits_per_second,
                                                .latency = place_.latency,
                                                .trace_algorithms = place_.trace_algorithms,
                                                .silent_after = silent_after(),
                                                .waits = &waits_};
  auto ranks = place_.backend.empty() ? std::make_unique<collective::Communicator>(endpoint_, options)
                                      : connect_by_engine(place_.backend, options);
  const MutexLock lock(mutex_);
  ranks_ = std::move(ranks);
  if (!failure_.empty()) ranks_->abort(failure_);
  if (broken_ == entered_) ranks_->abort(broken_because_);
  return *ranks_;
}

void JobSession::release_ranks() {
  std::unique_ptr<collective::Communicator> ranks;
  const MutexLock lock(mutex_);
  ranks.swap(ranks_);
}

std::string JobSession::view_failure() const {
  const MutexLock lock(mutex_);
  return !failure_.empty() ? failure_ : broken_ == entered_ ? broken_because_ : "";
}

bool JobSession::regroup_wanted() const { return regroup_wanted_.load() == view().view || termination_requested(); }

std::chrono::milliseconds JobSession::silent_after() const {
  const auto hang_after = membership_->hang_after();
  return hang_after.count() == 0 ? hang_after : hang_after + cluster::kMasterFirst;
}

void JobSession::note_unreachable(cluster::MemberId member) {
  const MutexLock lock(unreachable_mutex_);
  unreachable_.push_back(member);
}

std::vector<cluster::MemberId> JobSession::unreachable_members() {
  std::vector<cluster::MemberId> members;
  {
    const MutexLock lock(unreachable_mutex_);
    members.swap(unreachable_);
  }
  const cluster::ViewInfo left = view();
  for (const net::Address& address : endpoint_.take_unreachable()) {
    const auto same = [&](const cluster::MemberInfo& worker) { return worker.address.text() == address.text(); };
    const auto found = std::ranges::find_if(left.workers, same);
    if (found != left.workers.end()) members.push_back(found->id);
  }
  return members;
}

bool JobSession::regroup(const std::string& reason, bool done) {
  if (const std::string known = failure(); !known.empty()) fail<PeerLost>("{}", known);
  if (!membership_->regroup(reason, done, unreachable_members())) return false;
  note_view();
  if (!ranks_ || learner()) return true;
  if (!place_.backend.empty()) {
    fail<PeerLost>(
        "{} cannot go on with other ranks ({}): start the job again, and it continues from its last checkpoint",
        place_.backend, reason);
  }
  const cluster::ViewInfo members = view();
  ranks_->reconfigure(rank(), members.view, members.worker_addresses());
  const MutexLock lock(mutex_);  // failures that were reported while it connected
  if (!failure_.empty()) ranks_->abort(failure_);
  if (broken_ == entered_) ranks_->abort(broken_because_);
  return true;
}

bool JobSession::refresh_view() {
  if (!membership_->refresh_view()) return false;
  note_view();
  return true;
}

void JobSession::on_regroup(View view, cluster::Regroup when, const std::string& reason) {
  log_info("regroup_requested", "the workers have to regroup in another view", {{"view", view}, {"reason", reason}});
  if (when == cluster::Regroup::kAfterStep) return regroup_wanted_.store(view);
  const MutexLock lock(mutex_);
  broken_ = view;
  broken_because_ = reason;
  if (entered_ != view) return;    // checked when that view is entered
  endpoint_.enter_view(view + 1);  // ends a wait for a worker that will not connect
  if (ranks_) ranks_->abort(reason);
  if (interrupt_) interrupt_(reason);
}

std::vector<MetricsRow> JobSession::take_rows() {
  const MutexLock lock(mutex_);
  return std::exchange(rows_, {});
}

void JobSession::on_failure(std::function<void(const std::string&)> interrupt) {
  const MutexLock lock(mutex_);
  interrupt_ = std::move(interrupt);
  if (!failure_.empty() && interrupt_) interrupt_(failure_);
}

std::string JobSession::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

std::string JobSession::wait_for_failure(Deadline deadline) const {
  const MutexLock lock(mutex_);
  failed_.wait(mutex_, deadline, [&]() TRIREME_REQUIRES(mutex_) { return !failure_.empty(); });
  return failure_;
}

void JobSession::abort(const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = reason;
  log_error("job_failed", "the job failed", {{"reason", reason}});
  if (ranks_) ranks_->abort(reason);
  if (interrupt_) interrupt_(reason);
  failed_.notify_all();
}

}  // namespace trireme
