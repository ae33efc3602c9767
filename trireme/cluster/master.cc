#include "trireme/cluster/master.h"

#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/cluster/lease_book.h"
#include "trireme/cluster/progress_board.h"

namespace trireme::cluster {
namespace {

using Clock = Deadline::Clock;

struct Member {
  MemberState state;
  net::Address address;
  std::uint64_t session = 0;
  Clock::time_point last_heard;
  std::optional<std::pair<net::SessionPtr, net::FrameHeader>> waits_for_view;
};

}  // namespace

class Master::Impl final : public net::RequestHandler {
 public:
  explicit Impl(MasterOptions options) : options_(std::move(options)), started_(Clock::now()) {
    if (options_.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
    options_.service.share_memory = false;  // small, rare messages
    service_.emplace(options_.service, *this);
    watch_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  }

  ~Impl() override {
    watch_.request_stop();
    watch_.join();
    service_.reset();
  }

  const net::Address& address() const { return service_->address(); }

  JobStatus status() const {
    const std::lock_guard lock(mutex_);
    return {.state = state_,
            .reason = state_ == JobState::kGathering ? "waiting for " + missing() : reason_,
            .view = view_.view,
            .plan = plan_.value_or(Plan{}),
            .now = board_.now(Clock::now()),
            .spread_max = board_.spread_max(),
            .clocks = board_.clocks(),
            .result = result_};
  }

  bool over() const {
    const std::lock_guard lock(mutex_);
    return state_ == JobState::kFailed || state_ == JobState::kFinished;
  }

  bool deserted() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(members_.begin(), members_.end(),
                       [](const auto& entry) { return entry.second.state.left || entry.second.state.disconnected; });
  }

  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    const auto& header = frame.header;
    const Bytes body = frame.body_bytes();
    switch (header.kind) {
      case kJoin:
        return join(session, header, net::decode_body<JoinRequest>(body));
      case kHeartbeat:
        return session->reply(header, heartbeat(net::decode_body<Heartbeat>(body)));
      case kPlan:
        return set_plan(session, header, net::decode_body<Plan>(body));
      case kLease:
        return session->reply(header, lease(net::decode_body<LeaseRequest>(body)));
      case kStatus:
        return session->reply(header, status());
      case kResult:
        return set_result(session, header, net::decode_body<ResultReport>(body));
      case kStop:
        return stop(session, header, net::decode_body<StopRequest>(body));
      case kLeave:
        return leave(session, header, net::decode_body<LeaveNotice>(body));
      default:
        fail<InvalidArgument>("the master does not know request kind {}", header.kind);
    }
  }

  void on_disconnect(const net::SessionPtr& session, const std::string& /*reason*/) override {
    const std::lock_guard lock(mutex_);
    for (auto& [key, member] : members_) {
      if (member.session != session->id()) continue;
      member.state.disconnected = true;
      judge(member, Clock::now());
    }
  }

 private:
  using Key = std::pair<Role, Rank>;

  void join(const net::SessionPtr& session, const net::FrameHeader& header, const JoinRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t limit = request.role == Role::kWorker ? options_.workers : options_.servers;
    const std::string who = fmt::format("{} {}", to_string(request.role), request.rank);
    if (request.rank >= limit) {
      fail<InvalidArgument>("{} cannot join: this job has {} {}s", who, limit, to_string(request.role));
    }
    if (state_ != JobState::kGathering) fail<StaleView>("{} cannot join: the job is {}", who, to_string(state_));
    const Key key{request.role, request.rank};
    if (const auto found = members_.find(key); found != members_.end() && !found->second.state.disconnected) {
      fail<InvalidArgument>("{} has joined already (pid {}): two processes have the same role and rank", who,
                            found->second.state.pid);
    }
    members_[key] = {.state = {.role = request.role, .rank = request.rank, .pid = request.pid},
                     .address = request.address,
                     .session = session->id(),
                     .last_heard = Clock::now(),
                     .waits_for_view = std::pair(session, header)};
    log_info("joined", {{"member", who}, {"pid", request.pid}, {"missing", missing()}});
    if (missing().empty()) form_view();
  }

  void form_view() {
    view_ = {.view = 1,
             .workers = options_.workers,
             .servers = addresses(Role::kServer, options_.servers),
             .worker_addresses = addresses(Role::kWorker, options_.workers)};
    state_ = JobState::kRunning;
    reason_ =
        fmt::format("view {}: all {} workers and {} servers are here", view_.view, options_.workers, options_.servers);
    log_info(reason_);
    for (auto& [key, member] : members_) {
      member.last_heard = Clock::now();
      const auto [session, header] = *std::exchange(member.waits_for_view, std::nullopt);
      session->reply(header, view_);
    }
  }

  std::vector<net::Address> addresses(Role role, std::uint32_t count) const {
    std::vector<net::Address> all;
    for (Rank rank = 0; rank < count; ++rank) all.push_back(members_.at({role, rank}).address);
    return all;
  }

  HeartbeatReply heartbeat(const Heartbeat& beat) {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find({beat.role, beat.rank});
    if (found == members_.end()) fail<StaleView>("{} {} is not a member", to_string(beat.role), beat.rank);
    found->second.last_heard = Clock::now();
    HeartbeatReply reply{
        .stop = stop_, .over = state_ == JobState::kFinished, .abort = state_ == JobState::kFailed ? reason_ : ""};
    if (beat.role == Role::kServer) board_.set_clocks(beat.clocks);
    if (beat.role != Role::kWorker || !plan_) return reply;
    board_.add(beat.rank, beat.work, Clock::now());
    if (beat.last) board_.close_row(Clock::now());
    if (beat.rank == 0) reply.rows = board_.take_rows();
    return reply;
  }

  void set_plan(const net::SessionPtr& session, const net::FrameHeader& header, const Plan& plan) {
    const std::lock_guard lock(mutex_);
    if (!plan_) {
      plan_ = plan;
      board_ = ProgressBoard(plan, options_.workers, Clock::now());
      leases_ = LeaseBook(plan.leased ? plan.steps * plan.lanes : 0, options_.workers);
    } else if (!(*plan_ == plan)) {
      fail<InvalidArgument>(
          "the workers do not agree on the length of the job: {} here, {} from this one; do all run "
          "the same program with the same flags?",
          nlohmann::json(*plan_).dump(), nlohmann::json(plan).dump());
    }
    session->reply(header, Done{});
  }

  LeaseReply lease(const LeaseRequest& request) {
    const std::lock_guard lock(mutex_);
    for (const UnitRange& range : request.finished) leases_.finish(request.worker, range);
    if (stop_) return {.over = true, .finished = leases_.finished()};
    const UnitRange range = leases_.next(request.worker);
    return {.over = range.count == 0 && leases_.over(), .range = range, .finished = leases_.finished()};
  }

  void set_result(const net::SessionPtr& session, const net::FrameHeader& header, const ResultReport& report) {
    const std::lock_guard lock(mutex_);
    result_ = report.result;
    session->reply(header, Done{});
  }

  void stop(const net::SessionPtr& session, const net::FrameHeader& header, const StopRequest& request) {
    const std::lock_guard lock(mutex_);
    if (!stop_) log_info("the job is to stop", {{"reason", request.reason}});
    stop_ = true;
    if (state_ == JobState::kRunning) reason_ = request.reason;
    session->reply(header, Done{});
  }

  void leave(const net::SessionPtr& session, const net::FrameHeader& header, const LeaveNotice& notice) {
    const std::lock_guard lock(mutex_);
    const auto found = members_.find({notice.role, notice.rank});
    if (found == members_.end()) fail<StaleView>("{} {} is not a member", to_string(notice.role), notice.rank);
    found->second.state.left = true;
    if (notice.role == Role::kWorker) board_.leave(notice.rank);
    const std::string who = fmt::format("{} {}", to_string(notice.role), notice.rank);
    log_info("left", {{"member", who}, {"failure", notice.failure}});
    if (!notice.failure.empty()) fail_job(fmt::format("{} failed: {}", who, notice.failure));
    const bool work_left = std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
      return entry.first.first == Role::kWorker && !entry.second.state.left;
    });
    if (!work_left && state_ == JobState::kRunning) {
      state_ = JobState::kFinished;
      reason_ = "all workers are done";
      log_info(reason_);
    }
    session->reply(header, Done{});
  }

  void judge(Member& member, Clock::time_point now) {
    if (state_ != JobState::kRunning) return;
    member.state.silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(now - member.last_heard);
    const Health health = judge_member(member.state, options_.hang_after);
    if (health.lost) fail_job(health.reason);
  }

  void fail_job(const std::string& reason) {
    if (state_ == JobState::kFailed || state_ == JobState::kFinished) return;
    state_ = JobState::kFailed;
    reason_ = reason;
    log_error("the job failed", {{"reason", reason}});
    for (auto& [key, member] : members_) {
      if (!member.waits_for_view) continue;
      const auto [session, header] = *std::exchange(member.waits_for_view, std::nullopt);
      session->refuse(header, Timeout(reason));
    }
  }

  std::string missing() const {
    std::vector<MemberState> here;
    for (const auto& [key, member] : members_) here.push_back(member.state);
    return describe_missing(options_.workers, options_.servers, here);
  }

  void watch(const std::stop_token& stop) {
    net::name_thread("master-watch");
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock waiting(mutex);
    while (!stop.stop_requested()) {
      wake.wait_for(waiting, stop, 100ms, [] { return false; });
      const std::lock_guard lock(mutex_);
      const auto now = Clock::now();
      if (state_ == JobState::kGathering && now - started_ > options_.gather_within) {
        fail_job(fmt::format("{} did not join within {} s; see their logs", missing(),
                             std::chrono::duration_cast<std::chrono::seconds>(options_.gather_within).count()));
      }
      for (auto& [key, member] : members_) judge(member, now);
    }
  }

  MasterOptions options_;
  const Clock::time_point started_;
  mutable std::mutex mutex_;  // guards all below but the service and the thread
  JobState state_ = JobState::kGathering;
  std::string reason_;
  bool stop_ = false;
  ViewInfo view_;
  std::map<Key, Member> members_;
  std::optional<Plan> plan_;
  ProgressBoard board_;
  LeaseBook leases_;
  nlohmann::json result_;
  std::optional<net::Service> service_;
  std::jthread watch_;
};

Master::Master(MasterOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Master::~Master() = default;

const net::Address& Master::address() const { return impl_->address(); }

JobStatus Master::status() const { return impl_->status(); }

bool Master::over() const { return impl_->over(); }

bool Master::deserted() const { return impl_->deserted(); }

}  // namespace trireme::cluster
