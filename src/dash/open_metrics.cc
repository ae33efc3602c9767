#include "dash/open_metrics.h"

#include "base/spans.h"
#include "net/http/metrics_text.h"

namespace trireme::dash {
namespace {

constexpr std::size_t kMostRanks = 1000;

void add_histogram(net::MetricsText& text, const cluster::DurationHistogram& values) {
  text.histogram(values.bounds, values.counts, values.sum);
}

void add_workers(net::MetricsText& text, const cluster::JobStatus& status) {
  const bool each = status.workers.size() <= kMostRanks;
  text.family("trireme_phase_seconds", "counter", "Time of the workers' training threads by what they did.", "seconds");
  for (std::size_t phase = 0; phase < kPhaseNames.size(); ++phase) {
    double all = 0;
    for (std::size_t rank = 0; rank < status.workers.size(); ++rank) {
      const auto& phases = status.workers[rank].phases;
      if (phase >= phases.size()) continue;
      all += phases[phase];
      if (each) text.sample(phases[phase], {{"phase", kPhaseNames[phase]}, {"rank", std::to_string(rank)}});
    }
    if (!each) text.sample(all, {{"phase", kPhaseNames[phase]}});
  }
  if (!each) return;
  const auto per_rank = [&](const char* name, const char* help, const char* unit, auto value) {
    text.family(name, "gauge", help, unit);
    for (std::size_t rank = 0; rank < status.workers.size(); ++rank) {
      text.sample(value(status.workers[rank]), {{"rank", std::to_string(rank)}});
    }
  };
  per_rank("trireme_worker_samples_per_second", "Samples that a worker computes in a second.", "",
           [](const auto& worker) { return worker.samples_per_s; });
  per_rank("trireme_worker_lane_seconds", "How long a worker takes for one lane.", "seconds",
           [](const auto& worker) { return worker.lane_s; });
  per_rank("trireme_worker_silent_seconds", "How long nothing was heard of a worker.", "seconds",
           [](const auto& worker) { return worker.silent_s; });
  per_rank("trireme_worker_resident_bytes", "Memory of a worker.", "bytes",
           [](const auto& worker) { return static_cast<double>(worker.load.resident); });
  text.family("trireme_straggler_ratio", "gauge", "Slow workers: their time for a lane, relative to the median.",
              "ratio");
  for (const cluster::Straggler& slow : status.stragglers) {
    text.sample(slow.factor, {{"worker", std::to_string(slow.slot)}});
  }
}

}  // namespace

std::string to_open_metrics(const Measured& measured, bool open_metrics) {
  const cluster::JobStatus& status = measured.status;
  const cluster::JobCounters& counters = status.counters;
  net::MetricsText text(open_metrics);
  text.family("trireme_build", "info", "Which Trireme this is.");
  text.sample(1, {{"version", measured.version}});
  text.family("trireme_steps", "counter", "Steps made since this master began.");
  text.sample(static_cast<double>(counters.steps));
  text.family("trireme_samples", "counter", "Samples computed since this master began.");
  text.sample(static_cast<double>(counters.samples));
  text.family("trireme_step_duration_seconds", "histogram", "How long a step takes.", "seconds");
  add_histogram(text, counters.step_s);
  text.family("trireme_step", "gauge", "The step that the run has reached.");
  text.sample(static_cast<double>(status.now.step));
  text.family("trireme_planned_steps", "gauge", "How many steps the run is to make; 0 if only the program knows.");
  text.sample(static_cast<double>(status.plan.steps));
  text.family("trireme_samples_per_second", "gauge", "Samples in a second, of all workers.");
  text.sample(status.now.samples_per_s);
  text.family("trireme_loss", "gauge", "The loss of training over the last seconds.");
  text.sample(status.now.loss);
  text.family("trireme_metric", "gauge", "Named metrics of training over the last seconds.");
  for (const NamedValue& metric : status.now.metrics) text.sample(metric.value, {{"name", metric.name}});
  for (const auto& [name, value] : status.averages) text.sample(value, {{"name", name}});
  text.family("trireme_view", "gauge", "The number of the current membership.");
  text.sample(static_cast<double>(status.view));
  text.family("trireme_members", "gauge", "Processes that take part.");
  text.sample(static_cast<double>(status.workers.size()), {{"role", "worker"}});
  text.sample(static_cast<double>(status.servers.size()), {{"role", "server"}});
  text.family("trireme_wanted_members", "gauge", "Processes that should take part.");
  text.sample(status.wanted_workers, {{"role", "worker"}});
  text.sample(status.wanted_servers, {{"role", "server"}});
  text.family("trireme_state", "gauge", "1 for the state that the job is in.");
  for (const auto phase : {cluster::JobPhase::kGathering, cluster::JobPhase::kRunning, cluster::JobPhase::kWaiting,
                           cluster::JobPhase::kFailed, cluster::JobPhase::kFinished}) {
    text.sample(status.state == phase ? 1 : 0, {{"state", cluster::to_string(phase)}});
  }
  text.family("trireme_failures", "counter", "Members that were given up since this master began.");
  for (const auto& [what, count] : counters.failures) {
    const auto space = what.find(' ');
    text.sample(static_cast<double>(count), {{"role", what.substr(0, space)}, {"kind", what.substr(space + 1)}});
  }
  text.family("trireme_recovery_duration_seconds", "histogram", "From the loss of a member to the next step.",
              "seconds");
  add_histogram(text, counters.recovery_s);
  text.family("trireme_recovering_seconds", "gauge", "How long no step was made since a loss; 0 if steps are made.",
              "seconds");
  text.sample(counters.recovering_s);
  text.family("trireme_clock_spread_steps", "gauge", "By how many steps the fastest worker is ahead of the slowest.",
              "steps");
  text.sample(static_cast<double>(status.now.clock_max - status.now.clock_min));
  if (measured.checkpoint_age_s) {
    text.family("trireme_checkpoint_age_seconds", "gauge", "Since the last complete checkpoint.", "seconds");
    text.sample(*measured.checkpoint_age_s);
  }
  if (measured.goodput) {
    text.family("trireme_goodput_ratio", "gauge", "The share of the time in which steps were made.", "ratio");
    text.sample(*measured.goodput);
  }
  add_workers(text, status);
  return text.finish();
}

std::string to_targets(const cluster::JobStatus& status, const std::string& host) {
  auto all = nlohmann::json::array();
  const auto add = [&](const char* role, const std::vector<cluster::MemberStatus>& members) {
    for (const cluster::MemberStatus& member : members) {
      if (member.load.metrics.empty() || member.load.name != host) continue;
      all.push_back({{"targets", {member.load.metrics}},
                     {"labels", {{"role", role}, {"slot", std::to_string(member.slot)}, {"host", member.load.name}}}});
    }
  };
  add("worker", status.workers);
  add("worker", status.others);
  add("server", status.servers);
  return all.dump() + "\n";
}

}  // namespace trireme::dash
