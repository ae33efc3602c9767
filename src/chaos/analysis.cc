#include "chaos/analysis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "observe/bench_report.h"

namespace trireme::chaos {
namespace {

using observe::StepEvent;
using Process = std::pair<std::uint32_t, std::int64_t>;  // slot, pid

Process process_of(const StepEvent& event) { return {event.slot, event.pid}; }
bool begins(const StepEvent& event) { return event.kind == StepEvent::Kind::kBegin; }
bool enters(const StepEvent& event) { return event.kind == StepEvent::Kind::kEnter; }
bool takes_effect(const StepEvent& event) { return !begins(event) && !enters(event); }
double seconds_between(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e9; }

/// Returns the number under which a step is counted: units have their own.
std::uint64_t key_of(const StepEvent& event) { return event.unit.value_or(event.step); }

/// A step in one view, with the processes that took part.
struct Attempt {
  std::vector<LaneRange> begun;
  std::vector<std::pair<Process, LaneRange>> committed;
};

/// All synchronous steps of a run.
struct History {
  explicit History(Events events) {
    std::map<std::pair<Process, Step>, View> begun_in;  // a commit belongs to the view where its process began the step
    for (const StepEvent& event : events) {
      if (begins(event)) {
        begun_in[{process_of(event), event.step}] = event.view;
        members[event.view].insert(process_of(event));
        steps[event.step][event.view].begun.push_back(event.lanes);
      } else if (enters(event)) {
        first_steps.emplace(event.view, event.step);
      } else {
        const auto begun = begun_in.find({process_of(event), event.step});
        const View view = begun == begun_in.end() ? event.view : begun->second;
        steps[event.step][view].committed.emplace_back(process_of(event), event.lanes);
      }
    }
  }

  /// Returns whether the effect of `attempt` in `view` still existed when the step was begun again: a process that had
  /// it was there, and had not rolled back.
  bool lived_on(const std::map<View, Attempt>& attempts, View view, const Attempt& attempt, bool rolls_back) const {
    const auto again = std::find_if(attempts.upper_bound(view), attempts.end(),
                                    [](const auto& entry) { return !entry.second.begun.empty(); });
    if (again == attempts.end()) return true;
    if (rolls_back) return false;
    const auto& present = members.at(again->first);
    return std::ranges::any_of(attempt.committed, [&](const auto& entry) { return present.contains(entry.first); });
  }

  /// Returns whether the views after `view`, where `step` was last begun, go on beyond it: its sum was complete, though
  /// who made the step may not have lived to record it. With servers they hold the effect, not the workers.
  bool left_behind(Step step, View view) const {
    const auto next = first_steps.upper_bound(view);
    return next != first_steps.end() && next->second > step;
  }

  std::map<Step, std::map<View, Attempt>> steps;
  std::map<View, std::set<Process>> members;
  std::map<View, Step> first_steps;  // with which a view went on
};

bool covers(const LaneRange& range, Lane lane) { return lane >= range.first && lane < range.end(); }

bool begun_in(const Attempt& attempt, Lane lane) {
  return std::ranges::any_of(attempt.begun, [&](const LaneRange& range) { return covers(range, lane); });
}

/// Collects the findings of the audit.
class Findings {
 public:
  void missing(std::uint64_t samples, const std::string& what) {
    audit.samples_missing += samples;
    if (samples > 0 && audit.first_problem.empty()) audit.first_problem = what + " never took effect";
  }
  void repeated(std::uint64_t samples, const std::string& what) {
    audit.samples_repeated += samples;
    if (samples > 0 && audit.first_problem.empty()) audit.first_problem = what + " took effect more than once";
  }
  WorkAudit audit;
};

void audit_lane(const std::map<View, Attempt>& attempts, const History& history, Step step, Lane lane,
                const WorkPlan& plan, Findings& findings) {
  bool begun = false;
  bool committed = false;
  std::uint64_t effects = 0;
  for (const auto& [view, attempt] : attempts) {
    begun = begun || begun_in(attempt, lane);
    committed = committed || !attempt.committed.empty();
    if (attempt.committed.empty() || !history.lived_on(attempts, view, attempt, plan.rolls_back)) continue;
    effects += static_cast<std::uint64_t>(
        std::ranges::count_if(attempt.committed, [&](const auto& entry) { return covers(entry.second, lane); }));
  }
  const std::string what = fmt::format("lane {} of step {}", lane, step);
  const std::uint64_t samples = plan.samples(step, lane);
  const auto last = attempts.rbegin();
  if (!committed && begun && begun_in(last->second, lane)) committed = history.left_behind(step, last->first);
  if (!begun || !committed) findings.missing(samples, what);
  if (effects > 1) findings.repeated((effects - 1) * samples, what);
}

WorkAudit audit_units(Events events, const WorkPlan& plan) {
  std::map<std::uint64_t, std::uint64_t> effects;
  std::set<std::uint64_t> before;  // took effect before: the process died before it could record it
  for (const StepEvent& event : events) {
    if (event.kind == StepEvent::Kind::kCommit) ++effects[key_of(event)];
    if (event.kind == StepEvent::Kind::kRepeat) before.insert(key_of(event));
  }
  Findings findings;
  for (std::uint64_t unit = 0; unit < plan.steps * plan.lanes; ++unit) {
    const auto found = effects.find(unit);
    const std::uint64_t times = found != effects.end() ? found->second : before.contains(unit) ? 1 : 0;
    if (times == 1) continue;
    const std::uint64_t samples = plan.samples(unit / plan.lanes, static_cast<Lane>(unit % plan.lanes));
    const std::string what = fmt::format("unit {}", unit);
    times == 0 ? findings.missing(samples, what) : findings.repeated((times - 1) * samples, what);
  }
  return findings.audit;
}

/// Follows one fault through the events after it.
class Aftermath {
 public:
  Aftermath(const InjectedFault& fault, Events events, std::int64_t until)
      : fault_(fault), events_(events), until_(until) {
    for (const StepEvent& event : events) {
      if (event.at > fault.at) break;
      if (begins(event)) before_ = std::max(before_, event.view);
    }
    const auto commit = find([&](const StepEvent& event) { return takes_effect(event) && event.view > before_; });
    later_view_ = commit.has_value();
  }

  std::optional<double> recovered() const {
    return since(later_view_ ? find([&](const StepEvent& event) { return takes_effect(event) && event.view > before_; })
                             : find_commit_of_new_step([](const StepEvent&) { return true; }));
  }

  std::optional<double> back() const {
    if (fault_.fault.role != FaultRole::kWorker) return since(fault_.replaced_at);
    const bool killed = fault_.fault.kind == FaultKind::kKill;
    const auto again = [&](const StepEvent& event) {
      return event.slot == fault_.fault.slot && (event.pid != fault_.pid || (!killed && event.view > before_));
    };
    const auto commit = find([&](const StepEvent& event) { return takes_effect(event) && again(event); });
    if (commit || killed || later_view_) return since(commit);
    return since(find_commit_of_new_step([&](const StepEvent& event) { return event.slot == fault_.fault.slot; }));
  }

  std::uint64_t redone() const {
    std::set<std::uint64_t> before;
    std::set<std::tuple<Process, View, std::uint64_t>> before_by;
    std::set<std::uint64_t> again;
    for (const StepEvent& event : events_) {
      if (!begins(event) || event.at >= until_) continue;
      if (event.at <= fault_.at) {
        before.insert(key_of(event));
        before_by.emplace(process_of(event), event.view, key_of(event));
      } else if (before.contains(key_of(event)) &&
                 (event.unit || event.view > before_ ||
                  before_by.contains({process_of(event), event.view, key_of(event)}))) {
        again.insert(key_of(event));
      }
    }
    return again.size();
  }

 private:
  template <typename Match>
  std::optional<std::int64_t> find(Match match) const {
    for (const StepEvent& event : events_) {
      if (event.at >= until_) break;
      if (event.at > fault_.at && match(event)) return event.at;
    }
    return std::nullopt;
  }

  template <typename Match>
  std::optional<std::int64_t> find_commit_of_new_step(Match match) const {
    std::set<std::pair<Process, std::uint64_t>> begun;
    return find([&](const StepEvent& event) {
      if (enters(event) || !match(event)) return false;
      if (!begins(event)) return begun.contains({process_of(event), key_of(event)});
      begun.emplace(process_of(event), key_of(event));
      return false;
    });
  }

  std::optional<double> since(std::optional<std::int64_t> at) const {
    return at ? std::optional(seconds_between(fault_.at, *at)) : std::nullopt;
  }

  const InjectedFault& fault_;
  const Events events_;
  const std::int64_t until_;
  View before_ = 0;
  bool later_view_ = false;
};

}  // namespace

Recovery find_recovery(const InjectedFault& fault, Events events, std::int64_t until) {
  const Aftermath aftermath(fault, events, until);
  return {.injected = fault,
          .seconds = aftermath.recovered(),
          .back_seconds = aftermath.back(),
          .steps_redone = aftermath.redone()};
}

std::vector<Recovery> find_recoveries(std::span<const InjectedFault> faults, Events events) {
  std::vector<Recovery> recoveries;
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const std::int64_t until = i + 1 < faults.size() ? faults[i + 1].at : std::numeric_limits<std::int64_t>::max();
    recoveries.push_back(find_recovery(faults[i], events, until));
  }
  return recoveries;
}

WorkPlan work_seen_in(Events events) {
  WorkPlan plan;
  for (const StepEvent& event : events) {
    plan.lanes = std::max(plan.lanes, event.lanes.end());
    plan.leased = plan.leased || event.unit;
  }
  return plan;
}

std::string why_bits_may_differ(const WorkPlan& plan) {
  if (plan.leased) return "asynchronous runs are not bit-reproducible";
  if (plan.averages) return "with local-sgd the bits depend on which workers take part";
  return "";
}

WorkAudit audit_work(Events events, const WorkPlan& plan) {
  if (plan.leased) return audit_units(events, plan);
  const History history(events);
  const std::map<View, Attempt> nothing;
  Findings findings;
  for (Step step = 0; step < plan.steps; ++step) {
    const auto found = history.steps.find(step);
    const auto& attempts = found == history.steps.end() ? nothing : found->second;
    for (Lane lane = 0; lane < plan.lanes; ++lane) audit_lane(attempts, history, step, lane, plan, findings);
  }
  return findings.audit;
}

Pace pace_of(Events events, Lane lanes) {
  std::set<std::uint64_t> done;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  bool units = false;
  for (const StepEvent& event : events) {
    if (enters(event)) continue;
    first = std::min(first, event.at);
    if (begins(event)) continue;
    units = units || event.unit;
    done.insert(key_of(event));
    last = std::max(last, event.at);
  }
  if (done.empty()) return {};
  return {.steps = static_cast<double>(done.size()) / (units ? lanes : 1), .seconds = seconds_between(first, last)};
}

Growth judge_growth(std::string process, std::string what, const std::vector<double>& samples, double growth_share,
                    double growth_floor) {
  const auto third = static_cast<std::ptrdiff_t>(samples.size() / 3);
  Growth growth{.process = std::move(process), .what = std::move(what)};
  growth.first = observe::median({samples.begin(), samples.begin() + std::max<std::ptrdiff_t>(third, 1)});
  growth.last = observe::median({samples.end() - std::max<std::ptrdiff_t>(third, 1), samples.end()});
  growth.allowed = growth.first + std::max(growth_share * growth.first, growth_floor);
  return growth;
}

}  // namespace trireme::chaos
