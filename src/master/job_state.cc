#include "master/job_state.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"

namespace trireme::master {
namespace {

constexpr auto kFindUsWithin = 5s;     // how long the members of a master that died may take to find the next one
constexpr std::uint32_t kReserve = 2;  // workers beyond one per lane that a job may be scaled to
constexpr auto kOwnAbsence = 1s;       // without a tick: this process was stopped, or had no CPU time

/// Whether all it says is that a program of somebody's has begun: a plan that says more counts, whichever comes first.
bool preliminary(const cluster::Plan& plan) { return plan.steps == 0 && !plan.elastic; }

}  // namespace

JobState::JobState(MasterOptions options, Time now, MasterLog::Write write)
    : options_(std::move(options)),
      started_(now),
      now_(now),
      last_tick_(now),
      log_(
          options_.log_entry, [this] { return to_text(to_save()); },
          write ? std::move(write)
                : [this](const SavedText& changes) { log_.written(save_to(options_.log_entry, changes)); }),
      launch_(random_hex(8)),
      wanted_workers_(options_.shape.workers),
      wanted_servers_(options_.shape.servers),
      last_pause_(now) {
  if (options_.shape.workers == 0) fail<InvalidArgument>("a job needs at least one worker");
  if (!options_.log_entry.saved.empty()) take_over(parse_saved_job(options_.log_entry.saved));
}

bool JobState::no_members_left() const {
  return std::ranges::none_of(members_.all(), [](const auto& entry) { return entry.second.alive(); });
}

LeasePlan JobState::lease_plan() const {
  return {.total = plan_->leased ? plan_->steps * plan_->lanes : 0,
          .workers = options_.shape.workers,
          .pause_every = plan_->pause_every * plan_->lanes};
}

// ---- State that outlives the master.

/// Continues the job of a master that died.
void JobState::take_over(const SavedJob& saved) {
  launch_ = saved.launch;
  state_ = saved.state;
  end_saved_ = state_ == cluster::JobPhase::kFinished;
  waiting_since_ = now_;  // if it waits for members, they get their time again
  reason_ = saved.reason;
  view_ = saved.view;
  next_member_ = saved.next_member;
  wanted_workers_ = saved.wanted_workers;
  wanted_servers_ = saved.wanted_servers;
  stop_ = saved.stop;
  result_ = saved.result;
  plan_ = saved.plan;
  if (plan_) {
    metrics_ = MetricsAggregator(*plan_, options_.shape.workers, now_);
    leases_ = LeaseTable(lease_plan(), saved.leases);
  }
  members_.remember(view_, now_ + kFindUsWithin - options_.hang_after);
  log_info("job_taken_over", "took over the job",
           {{"view", view_.view}, {"state", to_string(state_)}, {"members", members_.all().size()}});
}

/// While this process did not run, it heard from no member, and members may have looked for another master: their
/// silence, and connections that ended meanwhile, say nothing about them. They reconnect, or are given up later.
void JobState::notice_own_absence() {
  const auto absent = now_ - std::exchange(last_tick_, now_);
  if (absent < kOwnAbsence || view_.view == 0 || ended()) return;
  log_warn("master_was_suspended", "this master did not run for a while: its members get time to reconnect",
           {{"seconds", seconds(absent)}});
  grace_until_ = now_ + kFindUsWithin;  // messages sent before they disconnected may still be read first
  for (auto& [id, member] : members_.all()) {
    if (member.alive() && !member.waits_for_view) give_time_to_come_back(member);  // waiting members stay connected
  }
}

void JobState::give_time_to_come_back(Member& member) const {
  member.session = 0;
  member.heard = false;
  member.last_heard = now_ + kFindUsWithin - options_.hang_after;
}

/// What is to be saved: with the view that is proposed, if any.
SavedJob JobState::to_save() const {
  return {.launch = launch_,
          .state = proposed_ ? cluster::JobPhase::kRunning : state_,
          .reason = reason_,
          .view = proposed_ ? proposed_->view : view_,
          .next_member = next_member_,
          .wanted_workers = wanted_workers_,
          .wanted_servers = wanted_servers_,
          .stop = stop_,
          .plan = plan_,
          .leases = leases_.memory(),
          .result = result_};
}

void JobState::saved(Time now, const SaveResult& result) {
  now_ = now;
  log_.written(result);
}

void JobState::when_saved(std::function<void()> then) {
  log_.when_saved([then = std::move(then)](bool /*saved*/) { then(); });
}

// ---- Requests of members.

void JobState::join(Time now, const net::SessionPtr& session, const net::FrameHeader& header,
                    const cluster::JoinRequest& request) {
  now_ = now;
  const std::string who = fmt::format("{} {}", to_string(request.role), request.slot);
  if (state_ == cluster::JobPhase::kFinished) return session->reply(header, cluster::JoinReply{.over = true});
  if (state_ == cluster::JobPhase::kFailed) fail<StaleView>("{} cannot join: the job has failed: {}", who, reason_);
  Member* member = members_.find(request.member);
  if (member != nullptr && !member->alive()) readmit(*member, session->id());
  if (member == nullptr || !member->alive()) member = &admit(session->id(), request, who);
  member->last_heard = now_;
  member->heard = true;
  member->session = session->id();
  member->done = request.done;
  for (const cluster::MemberId other : request.unreachable) note_apart(*member, other);
  leases_.give_back(member->info.id);
  if (request.as_learner && can_be_learner(*member)) return session->reply(header, receive(*member));
  member->waits_for_view.emplace(session, header);
  if (!member->in_view && member->info.slot >= wanted(request.role)) return release(*member);
  if (member->in_view && !request.done) {
    log_info("view_abandoned", "a member cannot continue in this view",
             {{"member", who}, {"view", request.view}, {"reason", request.reason}});
  }
  consider_view();
}

/// A server that was given up comes back before there is a view without it: it has what it had, and nobody else took
/// that over. It stays what it was. A worker is a new member in such a case, because its leases were given to others.
void JobState::readmit(Member& server, std::uint64_t session) {
  const bool same = server.state.role == cluster::Role::kServer && !server.state.left && server.was_in_view;
  if (!same || proposed_ || server.kept_out || members_.living(server.state.role, server.state.slot) != nullptr) return;
  server.state.disconnected = false;
  server.in_view = true;
  server.session = session;
  log_info("server_readmitted", "a server that was given up is back, with its shards",
           {{"member", server.name()}, {"view", view_.view}});
}

/// Returns whether a newcomer can catch up on its own while the others work, instead of making them wait. One for which
/// there is no room waits in reserve and costs the others nothing.
bool JobState::can_be_learner(const Member& member) const {
  return member.state.role == cluster::Role::kWorker && !member.in_view && state_ == cluster::JobPhase::kRunning &&
         elastic() && !broken_ && view_.workers.size() < most_workers();
}

/// Returns the current view with the learner at its end.
cluster::JoinReply JobState::receive(const Member& learner) const {
  cluster::JoinReply reply{.member = learner.info.id,
                           .learner = true,
                           .view = view_,
                           .launch = launch_,
                           .hang_after_ms = options_.hang_after.count()};
  reply.view.workers.push_back(learner.info);
  reply.view.lane_costs.clear();
  return reply;
}

cluster::SlotClaim JobState::claim(cluster::Role role) {
  std::uint32_t& next = claimed_[role];
  while (next < wanted(role) && members_.living(role, next) != nullptr) ++next;
  if (next >= wanted(role)) {
    fail<InvalidArgument>("there is no place for another {}: this job has {}", to_string(role), wanted(role));
  }
  return {.slot = next++};
}

/// Ends the wait of a member that is no longer needed.
void JobState::release(Member& member) {
  member.answer({.member = member.info.id, .over = true}, now_);
  member.state.left = true;
}

/// Adds a process that was not a member yet, or no longer is one.
Member& JobState::admit(std::uint64_t session, const cluster::JoinRequest& request, const std::string& who) {
  const std::uint32_t limit = wanted(request.role);
  if (request.slot >= limit) {
    fail<InvalidArgument>("{} cannot join: this job has {} {}s", who, limit, to_string(request.role));
  }
  if (state_ != cluster::JobPhase::kGathering && !elastic()) {
    fail<StaleView>("{} cannot join: the job is {}", who, to_string(state_));
  }
  const Member* other = members_.living(request.role, request.slot);
  if (other != nullptr && !other->heard && elastic()) {
    lose(
        *members_.find(other->info.id),
        {.lost = true, .cause = "replaced", .reason = fmt::format("another process has come in the place of {}", who)});
  } else if (other != nullptr) {
    fail<InvalidArgument>("{} has joined already (pid {}): two processes have the same role and rank", who,
                          other->state.pid);
  }
  const cluster::MemberId id = next_member_++;
  Member& member =
      members_.add({.id = id, .slot = request.slot, .pid = request.pid, .address = request.address}, request.role);
  member.session = session;
  log_info("member_joined", "a member joined",
           {{"member", who}, {"id", id}, {"pid", request.pid}, {"missing", view_.view == 0 ? missing() : ""}});
  return member;
}

cluster::HeartbeatReply JobState::heartbeat(Time now, std::uint64_t session, const cluster::Heartbeat& beat) {
  now_ = now;
  cluster::HeartbeatReply reply{.stop = stop_,
                                .over = end_saved_,
                                .abort = state_ == cluster::JobPhase::kFailed ? reason_ : "",
                                .view = view_.view,
                                .leading = log_.leading(),
                                .clock_id = clock_id_,
                                .clock = cluster::clock_now()};
  Member* member = members_.find(beat.member);
  if (member == nullptr || !member->alive()) {
    reply.expelled = !ended() && reply.leading;  // else another master may know better
    return reply;
  }
  member->last_heard = now_;
  member->heard = true;
  member->session = session;  // it may have come from a master that died
  member->activity = beat.activity;
  if (beat.load.cores > 0) member->load = beat.load;
  for (const cluster::MemberId other : beat.reached) note_reached(*member, other);
  reply.apart = to_try(*member);
  if (const auto steps = spans_.wanted(beat.member)) {
    reply.record = spans_.request();
    reply.record_steps = steps->count;
    reply.record_until = steps->until;
  }
  if (member->state.role == cluster::Role::kServer) {
    reply.over = reply.over || (member->in_view && may_go(*member, view_, server_target()));
    metrics_.set_clocks(beat.clocks);
    heed_reports(beat.member, beat.shards);
    return reply;
  }
  if (regroups() && member->in_view && !member->waits_for_view) {
    reply.regroup = broken_ || others_wait() ? cluster::Regroup::kNow : cluster::Regroup::kAfterStep;
    reply.reason = broken_ ? last_failure_ : decision_.reason;
  }
  if (!plan_ || !member->in_view) return reply;
  metrics_.add(beat.member, member->state.slot, beat.work, now_);
  note_progress();
  if (is_chief(beat.member)) reply.rows = metrics_.rows_after(beat.rows);
  reply.rows_taken = metrics_.rows_taken();
  return reply;
}

/// What only grows when something new is computed: steps that are repeated do not count. Where work is leased no
/// worker's clock is that of all, and samples do.
std::uint64_t JobState::progress() const {
  return plan_ && plan_->leased ? metrics_.counters().samples : metrics_.counters().steps;
}

/// After a loss: a step of the next view is made.
void JobState::note_progress() {
  if (!lost_at_ || broken_ || state_ != cluster::JobPhase::kRunning) return;
  if (progress() <= made_by_then_) return;
  const double took = seconds(now_ - *std::exchange(lost_at_, std::nullopt));
  recoveries_.add(took);
  log_info("training_continued", "training goes on after a loss",
           {{"view", view_.view}, {"seconds", took}, {"reason", last_failure_}});
}

void JobState::set_plan(Time now, const cluster::Plan& plan) {
  now_ = now;
  if (!plan_ || (preliminary(*plan_) && !preliminary(plan))) {
    plan_ = plan;
    metrics_ = MetricsAggregator(plan, options_.shape.workers, now_);
    leases_ = LeaseTable(lease_plan());
  } else if (!(*plan_ == plan) && (preliminary(*plan_) || !preliminary(plan))) {
    fail<InvalidArgument>(
        "the workers do not agree on the length of the job: {} here, {} from this one; do all run "
        "the same program with the same flags?",
        nlohmann::json(*plan_).dump(), nlohmann::json(plan).dump());
  }
  if (broken_ && !elastic()) return fail_job(last_failure_);
  save();
  consider_view();
}

/// Leases work to an asynchronous worker, once for each request, however often that arrives. Rejects requests from an
/// earlier view: the job may have gone back to a checkpoint since.
cluster::LeaseReply JobState::lease(Time now, const cluster::LeaseRequest& request) {
  now_ = now;
  Member* member = members_.find(request.member);
  const bool here = member != nullptr && member->alive() && member->in_view && !member->waits_for_view;
  if (!here || request.view != view_.view) {
    fail<StaleView>("work is leased to the members of view {}: rejoin the job", view_.view);
  }
  if (request.number < member->last_lease) {
    fail<StaleView>("request {} for work was overtaken by request {}", request.number, member->last_lease);
  }
  if (request.number > member->last_lease) {
    member->last_leased = lease_more(request);
    member->last_lease = request.number;
  }
  member->last_leased.saved = member->saved_lease;
  return member->last_leased;
}

cluster::LeaseReply JobState::lease_more(const cluster::LeaseRequest& request) {
  for (const cluster::UnitRange& range : request.finished) leases_.finish(range);
  leases_.keep_only(request.member, request.held);
  if (request.saved > 0) {
    leases_.pass(request.saved);
    last_pause_ = now_;
  }
  if (seconds(now_ - last_pause_) < plan_->pause_apart_s) leases_.skip_pause();
  leases_changed_ = true;
  cluster::LeaseReply reply{.over = leases_.over(), .finished = leases_.finished()};
  if (reply.over || !request.more) return reply;
  if (regroups()) fail<StaleView>("the workers have to meet in another view: {}", decision_.reason);
  reply.save = leases_.paused();
  reply.range = leases_.next(request.member);
  return reply;
}

void JobState::rewind(const cluster::RewindRequest& request) {
  if (request.view != view_.view || !is_chief(request.member)) {
    fail<StaleView>("only the chief of view {} can go back to a checkpoint", view_.view);
  }
  if (leases_.finished() > request.units) {
    log_warn("work_rewound", "work is repeated from a checkpoint on",
             {{"units", request.units}, {"were", leases_.finished()}});
  }
  leases_.rewind(request.units);
  save();
}

void JobState::set_result(const cluster::ResultReport& report) {
  result_ = report.result;
  save();
}

void JobState::stop(const cluster::StopRequest& request) {
  if (!stop_) log_info("stop_requested", "the job was asked to stop", {{"reason", request.reason}});
  stop_ = true;
  if (plan_ && plan_->leased) leases_.stop_early(plan_->lanes);
  if (state_ == cluster::JobPhase::kRunning) reason_ = request.reason;
  save();
}

/// Throws InvalidArgument, with the reason, for numbers that the job cannot have.
void JobState::check_scale(const cluster::ScaleRequest& request) const {
  if (!plan_) {
    fail<InvalidArgument>(
        "the job cannot be scaled (yet): none of its workers has said that others may come and go; a Trainer and "
        "dist::elastic say so when they begin");
  }
  if (!elastic()) {
    fail<InvalidArgument>(
        "the job cannot be scaled: its program has a loop of its own, which needs the {} workers that it has until its "
        "end; with dist::elastic (trireme/elastic.h), or a Trainer, they may come and go",
        view_.workers.size());
  }
  if (request.workers > plan_->lanes + kReserve) {
    fail<InvalidArgument>(
        "{} workers are too many: the batch has {} lanes, so {} workers can compute, and {} more wait in reserve; use "
        "{} at most",
        request.workers, plan_->lanes, plan_->lanes, kReserve, plan_->lanes + kReserve);
  }
  if (request.servers == 0) return;
  if (view_.servers.empty()) fail<InvalidArgument>("this job has no parameter servers");
  if (request.servers > view_.shards.size()) {
    fail<InvalidArgument>("{} servers are too many: the parameters are divided into {} shards; use {} at most",
                          request.servers, view_.shards.size(), view_.shards.size());
  }
}

void JobState::scale(Time now, const cluster::ScaleRequest& request) {
  now_ = now;
  check_scale(request);
  if (request.workers > 0) wanted_workers_ = request.workers;
  if (request.servers > 0) wanted_servers_ = request.servers;
  log_info("scale_requested", "the number of processes is to change",
           {{"workers", wanted_workers_}, {"servers", wanted_servers_}});
  save();
  for (auto& [id, member] : members_.all()) {  // those that only wait to take part are not needed
    if (member.info.slot < wanted(member.state.role) || member.in_view || !member.waits_for_view) continue;
    release(member);
  }
  consider_view();
}

/// All workers have to save after the same step, and none of them may have gone beyond it: they do so at the beginning
/// of the next view, which they enter together. Leased work pauses instead.
void JobState::checkpoint(Time now, const cluster::CheckpointNow& request) {
  now_ = now;
  if (!elastic() || view_.view == 0 || ended()) {
    fail<InvalidArgument>("no checkpoint can be asked for {}: {}",
                          ended()     ? "any more"
                          : elastic() ? "yet"
                                      : "here",
                          ended()     ? "the job has ended"
                          : elastic() ? "the workers are not all there"
                                      : "only a Trainer makes them");
  }
  log_info("checkpoint_requested", "a checkpoint was asked for", {{"reason", request.reason}});
  if (plan_->leased) return leases_.pause_soon(plan_->lanes);
  save_wanted_ = request.reason;
  consider_view();
}

void JobState::leave(Time now, const cluster::LeaveNotice& notice) {
  now_ = now;
  Member* member = members_.find(notice.member);
  if (member == nullptr) fail<StaleView>("this process is not a member");
  if (!notice.failure.empty() && !member->alive()) {
    fail<StaleView>("{} is no longer a member: its failure does not concern the others ({})", member->name(),
                    notice.failure);
  }
  member->state.left = true;
  member->waits_for_view.reset();
  leases_.give_back(notice.member);
  const bool worker = member->state.role == cluster::Role::kWorker;
  if (worker) metrics_.leave(member->state.slot);
  log_info("member_left", "a member left", {{"member", member->name()}, {"failure", notice.failure}});
  if (!notice.failure.empty()) fail_job(fmt::format("{} failed: {}", member->name(), notice.failure));
  const bool work_left = members_.any_alive(cluster::Role::kWorker);
  const bool achieved = is_chief(notice.member) && !result_.is_null();
  const bool through = elastic() ? achieved || (!work_left && stop_) : !work_left;
  if (through && !ended()) finish_job();
  if (elastic() && worker && member->in_view && !view_.servers.empty()) {
    broken_ = true;  // the others may wait at the servers for its gradients
    last_failure_ = member->name() + " has left";
  }
  consider_view();
}

}  // namespace trireme::master
