// What the master tells people of its job.

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "master/job_state.h"

namespace trireme::master {

cluster::JobStatus JobState::status(Time now) const {
  cluster::JobStatus status{.state = state_,
                            .reason = describe_state(),
                            .view = view_.view,
                            .plan = plan_.value_or(cluster::Plan{}),
                            .now = metrics_.now(now),
                            .averages = metrics_.averages(),
                            .steps_per_s = metrics_.steps_per_s(now),
                            .spread_max = metrics_.spread_max(),
                            .clocks = metrics_.clocks(),
                            .workers = {},
                            .servers = {},
                            .others = {},
                            .stragglers = stragglers_,
                            .copies_due = copies_due(view_, server_target()) + unsaved_reports_,
                            .wanted_workers = wanted_workers_,
                            .wanted_servers = wanted_servers_,
                            .result = result_,
                            .counters = metrics_.counters()};
  status.counters.failures = failures_;
  status.counters.recovery_s = recoveries_;
  if (lost_at_) status.counters.recovering_s = seconds(now - *lost_at_);
  for (cluster::Straggler& slow : status.stragglers) slow.for_s = seconds(now - slow_since_.at(slow.slot));
  if (plan_ && plan_->leased) {  // a new master has not heard of all of it, but knows what is finished
    status.now.step = leases_.finished() / plan_->lanes;
    status.now.samples = plan_->samples_in(status.now.step);
    status.now.epoch =
        static_cast<double>(status.now.step) / static_cast<double>(std::max<Step>(1, plan_->steps_per_epoch));
  }
  for (const cluster::MemberInfo& worker : view_.workers) add_living(worker, now, status.workers);
  for (const cluster::MemberInfo& server : view_.servers) add_living(server, now, status.servers);
  for (const ViewCandidate& worker : members_.candidates()) {
    if (!worker.in_view && view_.view > 0) add_living({.id = worker.id}, now, status.others);
  }
  describe_lanes(status);
  return status;
}

/// Who has left, or died, is not shown.
void JobState::add_living(const cluster::MemberInfo& info, Time now, std::vector<cluster::MemberStatus>& to) const {
  const auto found = members_.all().find(info.id);
  if (found == members_.all().end() || !found->second.alive()) return;
  const Member& member = found->second;
  cluster::MemberStatus& status = to.emplace_back();
  status.slot = member.info.slot;
  status.pid = member.info.pid;
  status.host = member.info.address.host;
  status.silent_s = member.waits_for_view ? 0 : std::max(0.0, seconds(now - member.last_heard));
  status.activity = member.activity;
  status.load = member.load;
  if (member.state.role == cluster::Role::kWorker) return metrics_.describe(member.info.slot, now, status);
  std::vector<std::size_t> primaries;
  std::vector<std::size_t> copies;
  for (std::size_t shard = 0; shard < view_.shards.size(); ++shard) {
    if (view_.shards[shard].primary == info.id) primaries.push_back(shard);
    if (view_.shards[shard].replica == info.id) copies.push_back(shard);
  }
  status.primary = static_cast<std::uint32_t>(primaries.size());
  status.copies = static_cast<std::uint32_t>(copies.size());
  status.holds = fmt::format("shards {}", fmt::join(primaries, ", "));
  if (!copies.empty()) status.holds += fmt::format("; copies of {}", fmt::join(copies, ", "));
}

std::string JobState::describe_state() const {
  const std::string state = state_ == cluster::JobPhase::kGathering ? "waiting for " + missing() : reason_;
  if (!log_.unsaved()) return state;
  return fmt::format("{}; its state cannot be saved, so nobody can join or leave: {}", state, log_.problem());
}

cluster::RecordReply JobState::record(Time now, const cluster::RecordRequest& request) {
  std::map<cluster::MemberId, std::string> living;
  for (const auto& [id, member] : members_.all()) {
    if (member.alive()) living.emplace(id, member.name());
  }
  return {.request = spans_.ask({.count = request.steps, .until = newest_common_step(now)}, std::move(living), now)};
}

/// The newest step that all workers of the view have made, as far as they have said, so that all can be asked about the
/// same ones at once; kNewest if there is none.
Step JobState::newest_common_step(Time now) const {
  Step least = WantedSteps::kNewest;
  for (const auto& worker : view_.workers) {
    cluster::MemberStatus status;
    metrics_.describe(worker.slot, now, status);
    least = std::min(least, status.clock);
  }
  return least == 0 || least == WantedSteps::kNewest ? WantedSteps::kNewest : least - 1;  // the first step is 0
}

void JobState::add_spans(cluster::SpanReport report) {
  const Member* member = members_.find(report.member);
  if (member == nullptr) return;
  report.process = member->name();
  report.pid = member->info.pid;
  report.host = member->load.name.empty() ? member->info.address.host : member->load.name;
  spans_.add(std::move(report));
}

cluster::RecordedReply JobState::recorded(const cluster::RecordedQuery& query) const {
  cluster::RecordedReply reply = spans_.reply(query);
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  reply.wall_ahead = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count() - cluster::clock_now();
  if (plan_) reply.strategy = plan_->strategy;
  return reply;
}

/// Which lanes each worker computes.
void JobState::describe_lanes(cluster::JobStatus& status) const {
  if (!plan_ || plan_->leased || plan_->lanes < view_.workers.size() || view_.workers.empty()) return;
  const std::vector<LaneRange> dealt = view_.deal(plan_->lanes);
  for (std::size_t rank = 0; rank < view_.workers.size(); ++rank) {
    const auto worker = std::ranges::find(status.workers, view_.workers[rank].slot, &cluster::MemberStatus::slot);
    if (worker == status.workers.end()) continue;
    worker->lanes = dealt[rank].count;
    worker->holds = dealt[rank].count == 1
                        ? fmt::format("lane {}", dealt[rank].first)
                        : fmt::format("lanes {}–{}", dealt[rank].first, dealt[rank].first + dealt[rank].count - 1);
  }
}

}  // namespace trireme::master
