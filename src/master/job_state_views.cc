// How the master's job moves from one view to the next, and which members are given up.

#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "master/job_state.h"

namespace trireme::master {
namespace {

constexpr auto kPacesSettle = 3s;

Seat seat_of(const Member& member) { return {.role = member.state.role, .slot = member.state.slot}; }

/// The servers that are alive and in a view, or wait for one.
std::vector<ApartCandidate> servers(const MemberTable& members, bool kept_out_too) {
  std::vector<ApartCandidate> all;
  for (const auto& [id, member] : members.all()) {
    const bool here = member.in_view || member.waits_for_view;
    const bool counts = member.may_serve() || (kept_out_too && member.kept_out && member.alive());
    if (here && counts) all.push_back({.id = id, .slot = member.info.slot});
  }
  return all;
}

}  // namespace

/// Acts on the decision about the view, if there is anything to do.
void JobState::consider_view() {
  if (ended() || proposed_ || !log_.leading()) return;
  if (view_.view == 0) {
    if (missing().empty()) form_view(members_.workers(), "all are here");
    return;
  }
  if (!elastic()) return;
  keep_out_servers();
  decision_ = decide_view(view_inputs());
  switch (decision_.kind) {
    case ViewDecision::Kind::kKeep:
    case ViewDecision::Kind::kRegroup:
      return;
    case ViewDecision::Kind::kWait:
      return wait_for_members();
    case ViewDecision::Kind::kForm:
      if (members_.any_server_unheard()) return;  // it will reconnect soon, or be given up
      if (const Member* holder = holder_of_last_copies(view_, members_, now_ - options_.hang_after)) {
        return wait_for_holder(*holder);
      }
      return form_view(decision_.workers, decision_.reason);
  }
}

ViewInputs JobState::view_inputs() const {
  return {.shape = options_.shape,
          .most_workers = most_workers(),
          .broken = broken_,
          .gone = broken_ ? last_failure_ : "",
          .no_server = !view_.shards.empty() && !members_.any_server(),
          .balance = lane_costs_.empty() ? "" : "lanes move to faster workers: " + describe(stragglers_),
          .place_anew = place_anew_.empty() ? why_place_anew(view_, members_, server_target()) : place_anew_,
          .save = save_wanted_,
          .workers = members_.candidates(),
          .apart = apart(),
          .servers = servers(members_, /*kept_out_too=*/false),
          .servers_left_out = servers_left_out_};
}

// ---- Members that reach the master, but not each other.

/// A member gets no answer from another one. If that one is dead, or hangs, this is known soon; if not, the network
/// between the two is broken, and of the next views only one of them can be a member. Returns false if that is known.
bool JobState::note_apart(const Member& member, cluster::MemberId other) {
  const Member* peer = members_.find(other);
  if (peer == nullptr || !peer->alive() || other == member.info.id) return false;
  if (!apart_.add(seat_of(member), seat_of(*peer), now_)) return false;
  log_warn("members_apart", "a member gets no answer from another one",
           {{"member", member.name()}, {"other", peer->name()}, {"view", view_.view}});
  return true;
}

void JobState::note_reached(const Member& member, cluster::MemberId other) {
  const Member* peer = members_.find(other);
  if (peer == nullptr || !apart_.reached(seat_of(member), seat_of(*peer), now_)) return;
  log_info("members_reunited", "a member gets answers from another one again",
           {{"member", member.name()}, {"other", peer->name()}, {"view", view_.view}});
  if (member.in_view && peer->in_view) {
    place_anew_ = fmt::format("{} and {} reach each other again", member.name(), peer->name());
  }
  consider_view();
}

std::vector<ApartPair> JobState::apart() const {
  std::vector<ApartPair> pairs;
  for (const auto& [one, other] : apart_.all()) {
    const Member* first = members_.living(one.role, one.slot);
    const Member* second = members_.living(other.role, other.slot);
    if (first != nullptr && second != nullptr) pairs.emplace_back(std::minmax(first->info.id, second->info.id));
  }
  return pairs;
}

/// Returns the servers of such pairs of which both take part.
std::vector<ApartPair> JobState::apart_servers() const {
  std::vector<ApartPair> pairs = apart();
  std::erase_if(pairs, [&](const ApartPair& pair) {
    return !members_.all().at(pair.first).may_serve() || !members_.all().at(pair.second).may_serve();
  });
  return pairs;
}

/// Returns whom a member should try to reach: both of a pair try.
std::vector<cluster::MemberInfo> JobState::to_try(const Member& member) const {
  std::vector<cluster::MemberInfo> others;
  for (const Seat& seat : apart_.to_try(seat_of(member), now_)) {
    if (const Member* other = members_.living(seat.role, seat.slot)) others.push_back(other->info);
  }
  return others;
}

/// Gives up servers that others do not reach, and keeps out those that have been given up until they are reached again.
void JobState::keep_out_servers() {
  std::vector<ApartCandidate> workers;
  for (const ViewCandidate& worker : members_.candidates()) {
    if (worker.in_view || worker.ready) workers.push_back({.id = worker.id, .slot = worker.slot});
  }
  const LeftOut out = leave_out_servers(servers(members_, /*kept_out_too=*/true), workers, apart(), view_.shards);
  servers_left_out_ = out.reason;
  for (auto& [id, member] : members_.all()) {
    if (member.state.role != cluster::Role::kServer || !member.alive()) continue;
    member.kept_out = std::ranges::find(out.members, id) != out.members.end();
    if (member.kept_out && member.in_view) {
      lose(member, {.lost = true, .cause = "unreachable", .reason = out.reason.substr(2)});
    }
  }
}

/// Finds slow workers, and whether another deal of the lanes is worthwhile. Measurements take a while to settle, and a
/// worker that is slow only for a moment is neither reported nor relieved of lanes.
void JobState::watch_paces() {
  if (!plan_ || view_.workers.empty() || now_ - view_since_ < kPacesSettle) return;
  std::vector<cluster::LanePace> paces;
  std::vector<double> lane_seconds;
  for (const cluster::MemberInfo& worker : view_.workers) {
    lane_seconds.push_back(metrics_.lane_seconds(worker.slot));
    paces.push_back({worker.slot, lane_seconds.back()});
  }
  const auto found = cluster::find_stragglers(paces, stragglers_);
  std::map<std::uint32_t, Time> slow_since;
  for (const cluster::Straggler& slow : found) {
    const auto known = slow_since_.find(slow.slot);
    slow_since[slow.slot] = known == slow_since_.end() ? now_ : known->second;
  }
  slow_since_ = std::move(slow_since);
  if (!std::ranges::equal(found, stragglers_, {}, &cluster::Straggler::slot, &cluster::Straggler::slot)) {
    if (found.empty()) {
      log_info("stragglers_gone", "no worker is slow any more");
    } else {
      log_warn("stragglers_found", "some workers are slow", {{"stragglers", describe(found)}});
    }
  }
  stragglers_ = found;
  if (!plan_->balance || plan_->leased || !lane_costs_.empty()) return;
  lane_costs_ = cluster::better_costs(plan_->lanes, view_.deal(plan_->lanes), lane_seconds);
}

/// Returns whether some members already wait for the next view. With servers, workers need not agree on the step after
/// which they regroup: those still at work would wait at the servers for the gradients of the others.
bool JobState::others_wait() const {
  return !view_.servers.empty() && std::ranges::any_of(members_.candidates(), [](const ViewCandidate& worker) {
    return worker.in_view && worker.ready && !worker.done;
  });
}

void JobState::wait_for_members() {
  if (state_ == cluster::JobPhase::kWaiting) return;
  state_ = cluster::JobPhase::kWaiting;
  waiting_since_ = now_;
  reason_ =
      fmt::format("waiting for more: {}; gives up in {:.0f} s", decision_.reason, seconds(options_.wait_for_members));
  log_warn("members_awaited", "waiting for more members",
           {{"workers", members_.workers().size()},
            {"min_workers", options_.shape.min_workers},
            {"seconds", seconds(options_.wait_for_members)},
            {"reason", decision_.reason}});
}

/// A connection that ended need not mean a death. Without this member parameters would be lost, so it gets as long to
/// come back as silence is tolerated.
void JobState::wait_for_holder(const Member& holder) {
  if (state_ == cluster::JobPhase::kWaiting) return;
  state_ = cluster::JobPhase::kWaiting;
  waiting_since_ = now_;
  reason_ = fmt::format("waiting for {}, which has the only copy of some parameters; goes on without it after {:.0f} s",
                        holder.name(), seconds(options_.hang_after));
  log_warn("last_copy_awaited", "waits for a member that has the only copy of some parameters",
           {{"member", holder.name()}, {"seconds", seconds(options_.hang_after)}});
}

/// The next view is given out once it is saved, which is tried with every tick; until then the job stands still. There
/// is no limit to that: somebody has to make room, or to repair the store.
void JobState::wait_to_save() {
  if (view_.view == 0 || log_.lost_leadership()) return;
  state_ = cluster::JobPhase::kWaiting;
  waiting_since_ = now_;
  reason_ = fmt::format("view {} cannot begin", view_.view + 1);
}

/// Proposes the next view: it is formed once it is saved, so that no two masters ever form the same one.
void JobState::form_view(const std::vector<cluster::MemberId>& workers, const std::string& because) {
  if (proposed_) return;
  if (options_.max_views > 0 && view_.view >= options_.max_views) {
    return fail_job(
        fmt::format("the {} memberships that are allowed have passed (--max-views); the last one ended "
                    "because {}",
                    options_.max_views, last_failure_.empty() ? because : last_failure_));
  }
  cluster::ViewInfo next{.view = view_.view + 1, .save = !save_wanted_.empty()};
  for (const cluster::MemberId id : workers) {
    next.workers.push_back(members_.all().at(id).info);
    if (next.workers.back().since == 0) next.workers.back().since = next.view;
  }
  const bool same_workers =
      std::ranges::equal(next.workers, view_.workers, {}, &cluster::MemberInfo::id, &cluster::MemberInfo::id);
  const bool rebalanced = same_workers && !lane_costs_.empty();
  if (same_workers) next.lane_costs = rebalanced ? lane_costs_ : view_.lane_costs;
  cluster::ViewInfo before = view_;
  before.shards = without_unreached_copies(std::move(before.shards), apart_servers());
  place_shards(next, before, members_, server_target());
  proposed_ = {.view = std::move(next), .because = because, .rebalanced = rebalanced};
  log_.save([this](bool saved) {
    if (saved) return enter_proposed_view();
    proposed_.reset();  // a later tick decides again
    wait_to_save();
  });
}

/// Returns whether all members of a view that was proposed still wait for it, or live: some may have died meanwhile.
bool JobState::all_wait(const cluster::ViewInfo& view) const {
  const auto lives = [&](const cluster::MemberInfo& info) {
    const auto member = members_.all().find(info.id);
    return member != members_.all().end() && member->second.alive();
  };
  const auto waits = [&](const cluster::MemberInfo& info) {
    return lives(info) && members_.all().at(info.id).waits_for_view.has_value();
  };
  return std::ranges::all_of(view.workers, waits) && std::ranges::all_of(view.servers, lives);
}

/// The proposed view is saved: it is the view from now on, unless it has lost a member in the meantime.
void JobState::enter_proposed_view() {
  auto [next, because, rebalanced] = *std::exchange(proposed_, std::nullopt);
  if (ended()) return;
  if (!all_wait(next)) {
    save();  // what is true, until there is another one
    return consider_view();
  }
  view_ = std::move(next);
  members_.enter(view_);
  broken_ = false;
  lane_costs_.clear();
  place_anew_.clear();
  if (view_.save) save_wanted_.clear();
  view_since_ = now_;
  made_by_then_ = progress();
  state_ = cluster::JobPhase::kRunning;
  const std::string servers = view_.servers.empty() ? "" : " and " + counted(view_.servers.size(), "server");
  reason_ = fmt::format("view {}: {}{} ({})", view_.view, counted(view_.workers.size(), "worker"), servers, because);
  log_info("view_formed", "formed a view",
           {{"view", view_.view},
            {"workers", view_.workers.size()},
            {"servers", view_.servers.size()},
            {"rebalanced", rebalanced},
            {"saves", view_.save},
            {"reason", because}});
  for (auto& [id, member] : members_.all()) {
    if (!member.in_view || !member.waits_for_view) continue;
    member.answer({.member = id, .view = view_, .launch = launch_, .hang_after_ms = options_.hang_after.count()}, now_);
  }
  decision_ = {};
}

void JobState::end_gathering() {
  const std::vector<cluster::MemberId> here = members_.workers();
  const bool servers_here = missing().find("server") == std::string::npos;
  if (options_.shape.min_start > 0 && here.size() >= options_.shape.min_start && servers_here) {
    return form_view(here, fmt::format("{} did not join in time", missing()));
  }
  fail_job(fmt::format("{} did not join within {:.0f} s; see their logs", missing(), seconds(options_.gather_within)));
}

/// Applies a server's reports about the copies of its shards.
void JobState::heed_reports(cluster::MemberId from, const cluster::ShardReports& told) {
  if (told.view != view_.view || !elastic() || !log_.leading()) return;
  if (cluster::apply_reports(view_.shards, from, told.reports)) {
    ++unsaved_reports_;
    log_.save([this](bool /*saved*/) { --unsaved_reports_; });
  }
  for (const cluster::ShardReport& report : told.reports) {
    Member* replica = report.failure.empty() ? nullptr : members_.find(report.replica);
    const bool serves = replica != nullptr && replica->alive() && replica->in_view && !replica->waits_for_view;
    if (serves && report.silent) {  // one of the two goes: it depends on what they hold
      if (note_apart(*members_.find(from), report.replica)) consider_view();
    } else if (serves) {  // it lives, but does not follow
      lose(*replica, {.lost = true,
                      .cause = "unreachable",
                      .reason = fmt::format("{} does not get updates any more: {}", replica->name(), report.failure)});
    }
  }
}

void JobState::disconnected(Time now, std::uint64_t session) {
  now_ = now;
  notice_own_absence();
  const bool may_expel = view_.view == 0 || ended() || log_.leading();
  for (auto& [id, member] : members_.all()) {
    if (member.session != session || !member.alive()) continue;
    if (member.waits_for_view && member.waits_for_view->first->id() != session) continue;  // it has another one by now
    if (!may_expel || (now_ < grace_until_ && !member.waits_for_view)) {
      member.waits_for_view.reset();
      give_time_to_come_back(member);
      continue;
    }
    member.state.disconnected = true;
    member.waits_for_view.reset();
    judge(member);
  }
  consider_view();
}

void JobState::tick(Time now) {
  now_ = now;
  notice_own_absence();
  const bool leading = log_.leading();
  if (leading && state_ == cluster::JobPhase::kGathering && now_ - started_ > options_.gather_within) end_gathering();
  const bool waits_for_others = leading && state_ == cluster::JobPhase::kWaiting && !log_.unsaved();
  if (waits_for_others && now_ - waiting_since_ > options_.wait_for_members) {
    fail_job(fmt::format("nobody came within {:.0f} s: {}", seconds(options_.wait_for_members), decision_.reason));
  }
  if (broken_ && !plan_ && !plan_is_due()) return fail_job(last_failure_);
  for (auto& [id, member] : members_.all()) {
    if (!leading && member.heard) member.last_heard = now_;  // it may have been busy looking for another master
    if (member.alive()) judge(member);
  }
  watch_paces();
  consider_view();
  if (std::exchange(leases_changed_, false)) save_leases();
  log_.retry();
}

/// What workers have reported is known to a successor once it is saved: until then they report it again.
void JobState::save_leases() {
  std::map<cluster::MemberId, std::uint64_t> reported;
  for (const auto& [id, member] : members_.all()) reported[id] = member.last_lease;
  log_.save([this, reported = std::move(reported)](bool saved) {
    if (!saved) return;
    for (auto& [id, member] : members_.all()) {
      if (const auto last = reported.find(id); last != reported.end()) member.saved_lease = last->second;
    }
  });
}

/// A master that may have been replaced gives up nobody: members may be in touch with its successor.
void JobState::judge(Member& member) {
  if (!log_.leading()) return;
  if (ended() || state_ == cluster::JobPhase::kGathering || member.state.left) return;
  member.state.silent_for = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - member.last_heard);
  if (member.waits_for_view && !member.state.disconnected) return;  // it waits for us, not we for it
  const Health health = judge_member(member.state, options_.hang_after);
  if (health.lost) lose(member, health);
}

/// Returns whether the workers of the first view may still be about to say what kind of job this is.
bool JobState::plan_is_due() const { return !plan_ && view_.view == 1 && now_ - view_since_ < options_.plan_within; }

/// Handles the loss of a member: the others go on without it, or the job fails.
void JobState::lose(Member& member, const Health& health) {
  if (!elastic() && !plan_is_due()) return fail_job(health.reason);
  member.state.disconnected = true;
  member.waits_for_view.reset();
  if (member.state.role == cluster::Role::kWorker) metrics_.leave(member.state.slot);
  leases_.give_back(member.info.id);
  log_warn("member_lost", "lost a member",
           {{"member", member.name()}, {"pid", member.state.pid}, {"cause", health.cause}, {"reason", health.reason}});
  ++failures_[fmt::format("{} {}", to_string(member.state.role), health.cause)];
  if (!member.in_view) return;
  if (!lost_at_) lost_at_ = health.cause == "hangs" ? member.last_heard : now_;  // one that hangs did so before
  last_failure_ = health.reason;
  broken_ = true;
  member.in_view = false;
  member.was_in_view = true;
}

void JobState::finish_job() {
  state_ = cluster::JobPhase::kFinished;
  reason_ = "all workers are done";
  log_info("job_finished", "all workers are done");
  log_.save([this](bool /*saved*/) {
    end_saved_ = true;
    for (auto& [id, member] : members_.all()) {
      if (member.waits_for_view) member.answer({.member = id, .over = true}, now_);
    }
  });
}

void JobState::fail_job(const std::string& reason) {
  if (ended()) return;
  state_ = cluster::JobPhase::kFailed;
  reason_ = reason;
  log_error("job_failed", "the job failed", {{"reason", reason}});
  save();
  for (auto& [id, member] : members_.all()) {
    if (member.waits_for_view) member.refuse(reason);
  }
}

}  // namespace trireme::master
