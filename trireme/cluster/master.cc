#include "trireme/cluster/master.h"

#include <algorithm>
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
  MemberInfo info;
  MemberState state;
  std::uint64_t session = 0;
  Clock::time_point last_heard;
  bool in_view = false;
  bool done = false;  // it has made all steps
  std::optional<std::pair<net::SessionPtr, net::FrameHeader>> waits_for_view;

  bool alive() const { return !state.left && !state.disconnected; }
  std::string name() const { return fmt::format("{} {}", to_string(state.role), state.slot); }
};

double in_seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

}  // namespace

class Master::Impl final : public net::RequestHandler {
 public:
  explicit Impl(MasterOptions options)
      : options_(std::move(options)), started_(Clock::now()), wanted_workers_(options_.shape.workers) {
    if (options_.shape.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
    options_.service.door.share_memory = false;  // small, rare messages
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
    JobStatus status{.state = state_,
                     .reason = state_ == JobState::kGathering ? "waiting for " + missing() : reason_,
                     .view = view_.view,
                     .plan = plan_.value_or(Plan{}),
                     .now = board_.now(Clock::now()),
                     .spread_max = board_.spread_max(),
                     .clocks = board_.clocks(),
                     .workers = {},
                     .wanted_workers = wanted_workers_,
                     .result = result_};
    for (const MemberInfo& worker : view_.workers) status.workers.push_back(worker.slot);
    return status;
  }

  bool over() const {
    const std::lock_guard lock(mutex_);
    return ended();
  }

  bool deserted() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::none_of(members_, [](const auto& entry) { return entry.second.alive(); });
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
      case kScale:
        return scale(session, header, net::decode_body<ScaleRequest>(body));
      default:
        fail<InvalidArgument>("the master does not know request kind {}", header.kind);
    }
  }

  void on_disconnect(const net::SessionPtr& session, const std::string& /*reason*/) override {
    const std::lock_guard lock(mutex_);
    for (auto& [id, member] : members_) {
      if (member.session != session->id()) continue;
      member.state.disconnected = true;
      member.waits_for_view.reset();
      judge(member, Clock::now());
    }
    consider_view();
  }

 private:
  bool ended() const { return state_ == JobState::kFailed || state_ == JobState::kFinished; }

  bool elastic() const { return plan_ && plan_->elastic; }

  Member* find(MemberId id) {
    const auto found = members_.find(id);
    return found == members_.end() ? nullptr : &found->second;
  }

  void join(const net::SessionPtr& session, const net::FrameHeader& header, const JoinRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::string who = fmt::format("{} {}", to_string(request.role), request.slot);
    if (state_ == JobState::kFinished) return session->reply(header, JoinReply{.over = true});
    if (state_ == JobState::kFailed) fail<StaleView>("{} cannot join: the job is {}", who, to_string(state_));
    Member* member = find(request.member);
    if (member == nullptr || !member->alive()) member = &admit(session, request, who);
    member->last_heard = Clock::now();
    member->done = request.done;
    member->waits_for_view.emplace(session, header);
    if (member->in_view && !request.done) {
      log_info("cannot go on in this view", {{"member", who}, {"view", request.view}, {"reason", request.reason}});
    }
    consider_view();
  }

  /// A process that was no member yet, or is no member any more.
  Member& admit(const net::SessionPtr& session, const JoinRequest& request, const std::string& who) {
    const std::uint32_t limit = request.role == Role::kWorker ? wanted_workers_ : options_.shape.servers;
    if (request.slot >= limit) {
      fail<InvalidArgument>("{} cannot join: this job has {} {}s", who, limit, to_string(request.role));
    }
    const bool may_come = state_ == JobState::kGathering || (elastic() && request.role == Role::kWorker);
    if (!may_come) fail<StaleView>("{} cannot join: the job is {}", who, to_string(state_));
    for (auto& [id, other] : members_) {
      const bool same = other.state.role == request.role && other.state.slot == request.slot && other.alive();
      if (same) {
        fail<InvalidArgument>("{} has joined already (pid {}): two processes have the same role and rank", who,
                              other.state.pid);
      }
    }
    const MemberId id = next_member_++;
    Member& member = members_[id];
    member.info = {.id = id, .slot = request.slot, .pid = request.pid, .address = request.address};
    member.state = {.role = request.role, .slot = request.slot, .pid = request.pid};
    member.session = session->id();
    log_info("joined",
             {{"member", who}, {"id", id}, {"pid", request.pid}, {"missing", view_.view == 0 ? missing() : ""}});
    return member;
  }

  /// Does what has to be done about the view, if anything.
  void consider_view() {
    if (ended()) return;
    if (view_.view == 0) {
      if (missing().empty()) form_view(everybody(), "all are here");
      return;
    }
    if (!elastic()) return;
    decision_ = decide_view(situation());
    switch (decision_.kind) {
      case ViewDecision::Kind::kKeep:
      case ViewDecision::Kind::kRegroup:
        return;
      case ViewDecision::Kind::kWait:
        return wait_for_workers();
      case ViewDecision::Kind::kForm:
        return form_view(decision_.workers, decision_.reason);
    }
  }

  Situation situation() const {
    Situation situation{.shape = options_.shape,
                        .most_workers = std::min(plan_->lanes, wanted_workers_),
                        .broken = broken_,
                        .meet = !plan_->leased,
                        .workers = {}};
    for (const auto& [id, member] : members_) {
      if (member.state.role != Role::kWorker || !member.alive()) continue;
      situation.workers.push_back({.id = id,
                                   .slot = member.info.slot,
                                   .since = member.info.since,
                                   .in_view = member.in_view,
                                   .ready = member.waits_for_view.has_value(),
                                   .done = member.done});
    }
    return situation;
  }

  /// The workers of the first view, by slot.
  std::vector<MemberId> everybody() const {
    std::map<std::uint32_t, MemberId> by_slot;
    for (const auto& [id, member] : members_) {
      if (member.state.role == Role::kWorker && member.alive()) by_slot[member.info.slot] = id;
    }
    std::vector<MemberId> all;
    for (const auto& [slot, id] : by_slot) all.push_back(id);
    return all;
  }

  void wait_for_workers() {
    if (state_ == JobState::kWaiting) return;
    state_ = JobState::kWaiting;
    waiting_since_ = Clock::now();
    reason_ = fmt::format("waiting for workers: {}; gives up in {:.0f} s", decision_.reason,
                          in_seconds(options_.wait_for_workers));
    log_warn(reason_);
  }

  void form_view(std::vector<MemberId> workers, std::string because) {  // copies: the decision ends here
    if (options_.max_views > 0 && view_.view >= options_.max_views) {
      return fail_job(
          fmt::format("the {} memberships that are allowed have passed (--max-views); the last one ended "
                      "because {}",
                      options_.max_views, last_loss_.empty() ? because : last_loss_));
    }
    ++view_.view;
    view_.workers.clear();
    view_.servers.clear();
    for (auto& [id, member] : members_) member.in_view = false;
    for (const MemberId id : workers) {
      Member& member = members_.at(id);
      if (member.info.since == 0) member.info.since = view_.view;
      member.in_view = true;
      view_.workers.push_back(member.info);
    }
    for (std::uint32_t slot = 0; slot < options_.shape.servers; ++slot) {
      for (auto& [id, member] : members_) {
        if (member.state.role != Role::kServer || member.info.slot != slot || !member.alive()) continue;
        member.in_view = true;
        view_.servers.push_back(member.info);
      }
    }
    place_shards();
    broken_ = false;
    state_ = JobState::kRunning;
    reason_ = fmt::format("view {}: {} workers and {} servers ({})", view_.view, view_.workers.size(),
                          view_.servers.size(), because);
    log_info(reason_);
    for (auto& [id, member] : members_) {
      if (member.in_view && member.waits_for_view) answer(member, {.member = id, .view = view_});
    }
    std::erase_if(members_, [](const auto& entry) { return !entry.second.alive(); });
    decision_ = {};
  }

  /// Where the parameters live in the view that is being formed.
  void place_shards() {
    std::vector<AssignableServer> live;
    for (const MemberInfo& server : view_.servers) live.push_back({.id = server.id});
    if (live.empty()) return;
    const auto shards = kShardsPerServer * static_cast<std::uint32_t>(live.size());
    Assignment assignment = assign_shards(view_.shards, live, shards, options_.shape.replicas);
    log_info("places the parameters", {{"view", view_.view}, {"reason", assignment.reason}});
    view_.shards = std::move(assignment.shards);
  }

  static void answer(Member& member, const JoinReply& reply) {
    member.last_heard = Clock::now();
    member.done = false;
    const auto [session, header] = *std::exchange(member.waits_for_view, std::nullopt);
    session->reply(header, reply);
  }

  HeartbeatReply heartbeat(const Heartbeat& beat) {
    const std::lock_guard lock(mutex_);
    HeartbeatReply reply{.stop = stop_,
                         .over = state_ == JobState::kFinished,
                         .abort = state_ == JobState::kFailed ? reason_ : "",
                         .view = view_.view};
    Member* member = find(beat.member);
    if (member == nullptr || !member->alive()) {
      reply.expelled = !ended();
      return reply;
    }
    member->last_heard = Clock::now();
    if (member->in_view && decision_.kind == ViewDecision::Kind::kRegroup && !member->waits_for_view) {
      reply.regroup = broken_ ? Regroup::kNow : Regroup::kAfterStep;
      reply.reason = broken_ ? last_loss_ : decision_.reason;
    }
    if (member->state.role == Role::kServer) {
      board_.set_clocks(beat.clocks);
      apply_reports(view_.shards, beat.member, beat.shards);
    }
    if (member->state.role != Role::kWorker || !plan_) return reply;
    board_.add(member->state.slot, beat.work, Clock::now());
    if (beat.last) board_.close_row(Clock::now());
    if (!view_.workers.empty() && view_.workers.front().id == beat.member) reply.rows = board_.take_rows();
    return reply;
  }

  void set_plan(const net::SessionPtr& session, const net::FrameHeader& header, const Plan& plan) {
    const std::lock_guard lock(mutex_);
    if (!plan_) {
      plan_ = plan;
      board_ = ProgressBoard(plan, options_.shape.workers, Clock::now());
      leases_ = LeaseBook(plan.leased ? plan.steps * plan.lanes : 0, options_.shape.workers);
    } else if (!(*plan_ == plan)) {
      fail<InvalidArgument>(
          "the workers do not agree on the length of the job: {} here, {} from this one; do all run "
          "the same program with the same flags?",
          nlohmann::json(*plan_).dump(), nlohmann::json(plan).dump());
    }
    session->reply(header, Done{});
    consider_view();
  }

  LeaseReply lease(const LeaseRequest& request) {
    const std::lock_guard lock(mutex_);
    for (const UnitRange& range : request.finished) leases_.finish(request.member, range);
    if (stop_) return {.over = true, .finished = leases_.finished()};
    const UnitRange range = leases_.next(request.member);
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

  void scale(const net::SessionPtr& session, const net::FrameHeader& header, const ScaleRequest& request) {
    const std::lock_guard lock(mutex_);
    if (request.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
    if (plan_ && !elastic()) fail<InvalidArgument>("workers cannot come and go with strategy {}", plan_->strategy);
    log_info("the number of workers is to change", {{"from", wanted_workers_}, {"to", request.workers}});
    wanted_workers_ = request.workers;
    session->reply(header, Done{});
    for (auto& [id, member] : members_) {  // who only waits to take part is not needed
      const bool surplus = member.state.role == Role::kWorker && member.info.slot >= wanted_workers_;
      if (!surplus || member.in_view || !member.waits_for_view) continue;
      answer(member, {.member = id, .over = true});
      member.state.left = true;
    }
    consider_view();
  }

  void leave(const net::SessionPtr& session, const net::FrameHeader& header, const LeaveNotice& notice) {
    const std::lock_guard lock(mutex_);
    Member* member = find(notice.member);
    if (member == nullptr) fail<StaleView>("this process is not a member");
    member->state.left = true;
    member->waits_for_view.reset();
    const std::string who = member->name();
    if (member->state.role == Role::kWorker) board_.leave(member->state.slot);
    log_info("left", {{"member", who}, {"failure", notice.failure}});
    if (!notice.failure.empty()) fail_job(fmt::format("{} failed: {}", who, notice.failure));
    const bool work_left = std::ranges::any_of(
        members_, [](const auto& entry) { return entry.second.state.role == Role::kWorker && entry.second.alive(); });
    const bool chief = !view_.workers.empty() && view_.workers.front().id == notice.member;
    const bool through = elastic() ? (chief && !result_.is_null()) || (!work_left && stop_) : !work_left;
    if (through && !ended()) finish_job();
    session->reply(header, Done{});
    consider_view();
  }

  void finish_job() {
    state_ = JobState::kFinished;
    reason_ = "all workers are done";
    log_info(reason_);
    for (auto& [id, member] : members_) {
      if (member.waits_for_view) answer(member, {.member = id, .over = true});
    }
  }

  void judge(Member& member, Clock::time_point now) {
    if (ended() || state_ == JobState::kGathering || member.state.left) return;
    member.state.silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(now - member.last_heard);
    if (member.waits_for_view && !member.state.disconnected) return;  // it waits for us, not we for it
    const Health health = judge_member(member.state, options_.hang_after);
    if (health.lost) lose(member, health.reason);
  }

  /// A member is gone: the others go on without it, or nobody does.
  void lose(Member& member, const std::string& reason) {
    if (!elastic() || member.state.role != Role::kWorker) return fail_job(reason);
    member.state.disconnected = true;
    member.waits_for_view.reset();
    board_.leave(member.state.slot);
    leases_.give_back(member.info.id);
    log_warn("lost a member", {{"member", member.name()}, {"reason", reason}});
    if (!member.in_view) return;
    last_loss_ = reason;
    broken_ = true;
    member.in_view = false;
  }

  void fail_job(const std::string& reason) {
    if (ended()) return;
    state_ = JobState::kFailed;
    reason_ = reason;
    log_error("the job failed", {{"reason", reason}});
    for (auto& [id, member] : members_) {
      if (!member.waits_for_view) continue;
      const auto [session, header] = *std::exchange(member.waits_for_view, std::nullopt);
      session->refuse(header, Timeout(reason));
    }
  }

  std::string missing() const {
    std::vector<MemberState> here;
    for (const auto& [id, member] : members_) here.push_back(member.state);
    return describe_missing(options_.shape, here);
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
      if (state_ == JobState::kGathering && now - started_ > options_.gather_within) end_gathering();
      if (state_ == JobState::kWaiting && now - waiting_since_ > options_.wait_for_workers) {
        fail_job(fmt::format("no more workers came within {:.0f} s: {}", in_seconds(options_.wait_for_workers),
                             decision_.reason));
      }
      for (auto& [id, member] : members_) {
        if (member.alive()) judge(member, now);
      }
      consider_view();
    }
  }

  void end_gathering() {
    const std::vector<MemberId> here = everybody();
    const bool servers_here = missing().find("server") == std::string::npos;
    if (options_.shape.min_start > 0 && here.size() >= options_.shape.min_start && servers_here) {
      return form_view(here, fmt::format("{} did not come in time", missing()));
    }
    fail_job(
        fmt::format("{} did not join within {:.0f} s; see their logs", missing(), in_seconds(options_.gather_within)));
  }

  MasterOptions options_;
  const Clock::time_point started_;
  mutable std::mutex mutex_;  // guards all below but the service and the thread
  JobState state_ = JobState::kGathering;
  std::string reason_;
  Clock::time_point waiting_since_{};
  bool stop_ = false;
  std::uint32_t wanted_workers_;
  ViewInfo view_;
  bool broken_ = false;    // a member of the view is gone
  std::string last_loss_;  // who it was
  ViewDecision decision_;  // about the present view
  MemberId next_member_ = 1;
  std::map<MemberId, Member> members_;
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
