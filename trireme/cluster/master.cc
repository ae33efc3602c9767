#include "trireme/cluster/master.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/cluster/lease_book.h"
#include "trireme/cluster/progress_board.h"
#include "trireme/cluster/roster.h"
#include "trireme/cluster/saved_job.h"

namespace trireme::cluster {
namespace {

using Clock = Deadline::Clock;

constexpr auto kFindUsWithin = 5s;  // how long the members of a master that died may take to find the next one

}  // namespace

class Master::Impl final : public net::RequestHandler {
 public:
  explicit Impl(MasterOptions options)
      : options_(std::move(options)), started_(Clock::now()), wanted_workers_(options_.shape.workers) {
    if (options_.shape.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
    options_.service.door.share_memory = false;  // small, rare messages
    if (!options_.ledger.saved.empty()) take_over(parse_saved_job(options_.ledger.saved));
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

  bool deposed() const {
    const std::lock_guard lock(mutex_);
    return deposed_;
  }

  bool deserted() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::none_of(members_.all(), [](const auto& entry) { return entry.second.alive(); });
  }

  void on_request(const net::SessionPtr& session, net::InFrame frame) override {
    const auto& header = frame.header;
    const Bytes body = frame.body_bytes();
    switch (header.kind) {
      case kJoin:
        return join(session, header, net::decode_body<JoinRequest>(body));
      case kHeartbeat:
        return session->reply(header, heartbeat(session, net::decode_body<Heartbeat>(body)));
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
    for (auto& [id, member] : members_.all()) {
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

  /// Goes on with the job of a master that died.
  void take_over(const SavedJob& saved) {
    state_ = saved.state;
    reason_ = saved.reason;
    view_ = saved.view;
    next_member_ = saved.next_member;
    wanted_workers_ = saved.wanted_workers;
    stop_ = saved.stop;
    result_ = saved.result;
    plan_ = saved.plan;
    if (plan_) {
      board_ = ProgressBoard(*plan_, options_.shape.workers, Clock::now());
      leases_ = LeaseBook(plan_->leased ? plan_->steps * plan_->lanes : 0, options_.shape.workers);
    }
    members_.remember(view_, Clock::now() + kFindUsWithin);
    log_info("takes over the job",
             {{"view", view_.view}, {"state", to_string(state_)}, {"members", members_.all().size()}});
    if (plan_ && plan_->leased) fail_job("the master died, and with it what it had leased to asynchronous workers");
  }

  /// Saves what there is now, with `view` as the view. False if that failed: it is tried again later.
  bool save(const ViewInfo& view) {
    if (!options_.ledger.save) return true;
    const SavedJob now{.state = view.view > view_.view ? JobState::kRunning : state_,
                       .reason = reason_,
                       .view = view,
                       .next_member = next_member_,
                       .wanted_workers = wanted_workers_,
                       .stop = stop_,
                       .plan = plan_,
                       .result = result_};
    try {
      options_.ledger.save(to_text(now));
      unsaved_ = false;
      return true;
    } catch (const StaleView& other) {
      if (!deposed_) log_error("another master leads: this one decides nothing any more", {{"reason", other.what()}});
      deposed_ = true;
    } catch (const Error& problem) {
      if (!unsaved_) log_error("cannot save the state of the job: tries again", {{"reason", problem.what()}});
      unsaved_ = true;
    }
    return false;
  }
  void save() { save(view_); }

  void join(const net::SessionPtr& session, const net::FrameHeader& header, const JoinRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::string who = fmt::format("{} {}", to_string(request.role), request.slot);
    if (state_ == JobState::kFinished) return session->reply(header, JoinReply{.over = true});
    if (state_ == JobState::kFailed) fail<StaleView>("{} cannot join: the job is {}", who, to_string(state_));
    Member* member = members_.find(request.member);
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
    if (const Member* other = members_.living(request.role, request.slot)) {
      fail<InvalidArgument>("{} has joined already (pid {}): two processes have the same role and rank", who,
                            other->state.pid);
    }
    const MemberId id = next_member_++;
    Member& member =
        members_.add({.id = id, .slot = request.slot, .pid = request.pid, .address = request.address}, request.role);
    member.session = session->id();
    log_info("joined",
             {{"member", who}, {"id", id}, {"pid", request.pid}, {"missing", view_.view == 0 ? missing() : ""}});
    return member;
  }

  /// Does what has to be done about the view, if anything.
  void consider_view() {
    if (ended() || deposed_ || !options_.ledger.leading()) return;
    if (view_.view == 0) {
      if (missing().empty()) form_view(members_.workers(), "all are here");
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
    return {.shape = options_.shape,
            .most_workers = std::min(plan_->lanes, wanted_workers_),
            .broken = broken_,
            .meet = !plan_->leased,
            .workers = members_.candidates()};
  }

  void wait_for_workers() {
    if (state_ == JobState::kWaiting) return;
    state_ = JobState::kWaiting;
    waiting_since_ = Clock::now();
    reason_ = fmt::format("waiting for workers: {}; gives up in {:.0f} s", decision_.reason,
                          seconds(options_.wait_for_workers));
    log_warn(reason_);
  }

  void form_view(std::vector<MemberId> workers, std::string because) {  // copies: the decision ends here
    if (options_.max_views > 0 && view_.view >= options_.max_views) {
      return fail_job(
          fmt::format("the {} memberships that are allowed have passed (--max-views); the last one ended "
                      "because {}",
                      options_.max_views, last_loss_.empty() ? because : last_loss_));
    }
    ViewInfo next{.view = view_.view + 1};
    for (const MemberId id : workers) {
      Member& member = members_.all().at(id);
      next.workers.push_back(member.info);
      if (member.info.since == 0) next.workers.back().since = next.view;
    }
    for (std::uint32_t slot = 0; slot < options_.shape.servers; ++slot) {
      if (const Member* server = members_.living(Role::kServer, slot)) next.servers.push_back(server->info);
    }
    place_shards(next);
    if (!save(next)) return;
    view_ = std::move(next);
    members_.enter(view_);
    broken_ = false;
    state_ = JobState::kRunning;
    reason_ = fmt::format("view {}: {} workers and {} servers ({})", view_.view, view_.workers.size(),
                          view_.servers.size(), because);
    log_info(reason_);
    for (auto& [id, member] : members_.all()) {
      if (member.in_view && member.waits_for_view) member.answer({.member = id, .view = view_});
    }
    decision_ = {};
  }

  /// Where the parameters live in the view that is being formed.
  void place_shards(ViewInfo& next) const {
    std::vector<AssignableServer> live;
    for (const MemberInfo& server : next.servers) live.push_back({.id = server.id});
    if (live.empty()) return;
    const auto shards = kShardsPerServer * static_cast<std::uint32_t>(live.size());
    Assignment assignment = assign_shards(view_.shards, live, shards, options_.shape.replicas);
    log_info("places the parameters", {{"view", next.view}, {"reason", assignment.reason}});
    next.shards = std::move(assignment.shards);
  }

  HeartbeatReply heartbeat(const net::SessionPtr& session, const Heartbeat& beat) {
    const std::lock_guard lock(mutex_);
    HeartbeatReply reply{.stop = stop_,
                         .over = state_ == JobState::kFinished,
                         .abort = state_ == JobState::kFailed ? reason_ : "",
                         .view = view_.view};
    Member* member = members_.find(beat.member);
    if (member == nullptr || !member->alive()) {
      reply.expelled = !ended();
      return reply;
    }
    member->last_heard = Clock::now();
    member->session = session->id();  // it may have come from a master that died
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
    save();
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
    save();
    session->reply(header, Done{});
  }

  void stop(const net::SessionPtr& session, const net::FrameHeader& header, const StopRequest& request) {
    const std::lock_guard lock(mutex_);
    if (!stop_) log_info("the job is to stop", {{"reason", request.reason}});
    stop_ = true;
    if (state_ == JobState::kRunning) reason_ = request.reason;
    save();
    session->reply(header, Done{});
  }

  void scale(const net::SessionPtr& session, const net::FrameHeader& header, const ScaleRequest& request) {
    const std::lock_guard lock(mutex_);
    if (request.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
    if (plan_ && !elastic()) fail<InvalidArgument>("workers cannot come and go with strategy {}", plan_->strategy);
    log_info("the number of workers is to change", {{"from", wanted_workers_}, {"to", request.workers}});
    wanted_workers_ = request.workers;
    save();
    session->reply(header, Done{});
    for (auto& [id, member] : members_.all()) {  // who only waits to take part is not needed
      const bool surplus = member.state.role == Role::kWorker && member.info.slot >= wanted_workers_;
      if (!surplus || member.in_view || !member.waits_for_view) continue;
      member.answer({.member = id, .over = true});
      member.state.left = true;
    }
    consider_view();
  }

  void leave(const net::SessionPtr& session, const net::FrameHeader& header, const LeaveNotice& notice) {
    const std::lock_guard lock(mutex_);
    Member* member = members_.find(notice.member);
    if (member == nullptr) fail<StaleView>("this process is not a member");
    member->state.left = true;
    member->waits_for_view.reset();
    const std::string who = member->name();
    if (member->state.role == Role::kWorker) board_.leave(member->state.slot);
    log_info("left", {{"member", who}, {"failure", notice.failure}});
    if (!notice.failure.empty()) fail_job(fmt::format("{} failed: {}", who, notice.failure));
    const bool work_left = std::ranges::any_of(members_.all(), [](const auto& entry) {
      return entry.second.state.role == Role::kWorker && entry.second.alive();
    });
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
    save();
    for (auto& [id, member] : members_.all()) {
      if (member.waits_for_view) member.answer({.member = id, .over = true});
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
    save();
    for (auto& [id, member] : members_.all()) {
      if (member.waits_for_view) member.refuse(reason);
    }
  }

  std::string missing() const { return describe_missing(options_.shape, members_.states()); }

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
        fail_job(fmt::format("no more workers came within {:.0f} s: {}", seconds(options_.wait_for_workers),
                             decision_.reason));
      }
      for (auto& [id, member] : members_.all()) {
        if (member.alive()) judge(member, now);
      }
      consider_view();
      if (unsaved_ && !deposed_) save();
    }
  }

  void end_gathering() {
    const std::vector<MemberId> here = members_.workers();
    const bool servers_here = missing().find("server") == std::string::npos;
    if (options_.shape.min_start > 0 && here.size() >= options_.shape.min_start && servers_here) {
      return form_view(here, fmt::format("{} did not come in time", missing()));
    }
    fail_job(
        fmt::format("{} did not join within {:.0f} s; see their logs", missing(), seconds(options_.gather_within)));
  }

  MasterOptions options_;
  const Clock::time_point started_;
  mutable std::mutex mutex_;  // guards all below but the service and the thread
  JobState state_ = JobState::kGathering;
  std::string reason_;
  Clock::time_point waiting_since_{};
  bool stop_ = false;
  bool unsaved_ = false;  // the store could not be reached
  bool deposed_ = false;  // another master leads
  std::uint32_t wanted_workers_;
  ViewInfo view_;
  bool broken_ = false;    // a member of the view is gone
  std::string last_loss_;  // who it was
  ViewDecision decision_;  // about the present view
  MemberId next_member_ = 1;
  Roster members_;
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

bool Master::deposed() const { return impl_->deposed(); }

}  // namespace trireme::cluster
