#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chaos/fault_plan.h"
#include "observe/step_trace.h"

namespace trireme::chaos {

// The effects of faults on a training, from the traces of its steps. Pure functions; events are in time order.

using Events = std::span<const observe::StepEvent>;

/// A fault that was injected.
struct InjectedFault {
  Fault fault;
  std::int64_t at = 0;                           ///< as in StepEvent
  Step step = 0;                                 ///< how far training had got
  std::int64_t pid = 0;                          ///< the victim
  std::string note = {};                         ///< what was done, for people
  std::optional<std::int64_t> replaced_at = {};  ///< when another process was first seen in its place
};

/// How training continued after a fault.
struct Recovery {
  InjectedFault injected;
  std::optional<double> seconds;       ///< until a step that needed the recovery took effect; nullopt: none did
  std::optional<double> back_seconds;  ///< until the victim, or its successor, took part again
  std::uint64_t steps_redone = 0;      ///< begun before the fault and again after it; asynchronous: units
};

/// Evaluates one fault. `until` is the next fault, or the end: what happens later is not due to this one. The recovery
/// is the first step that took effect in a later view; if there is no later view, the first that was begun after the
/// fault.
Recovery find_recovery(const InjectedFault& fault, Events events, std::int64_t until);

std::vector<Recovery> find_recoveries(std::span<const InjectedFault> faults, Events events);

/// The work of a run.
struct WorkPlan {
  Step steps = 0;
  Lane lanes = 1;
  bool leased = false;      ///< asynchronous: single units
  bool rolls_back = false;  ///< survivors go back, too, and continue from there: to the last average, or a checkpoint
  bool averages = false;    ///< local-sgd: the bits depend on which workers take part
  std::function<std::uint64_t(Step, Lane)> samples = [](Step, Lane) { return 1; };
};

/// Returns the work of a run as its own trace shows it: lanes, and whether it was leased. For programs of which nobody
/// else knows; steps and samples are the caller's.
WorkPlan work_seen_in(Events events);

/// Returns why a disturbed run of this work may end with other bits than an undisturbed one; empty if it may not.
std::string why_bits_may_differ(const WorkPlan& plan);

struct WorkAudit {
  std::uint64_t samples_missing = 0;
  std::uint64_t samples_repeated = 0;
  std::string first_problem = {};  ///< for people; empty: every sample was seen exactly as often as it should be
};

/// Checks that every sample took effect exactly once. Synchronous: each lane of each step. What took effect only in
/// processes that then died is lost with them: if it is repeated, it still counts once. A step that nobody recorded as
/// done took effect if all its lanes were begun in a view and the next one went on beyond it. Asynchronous: each unit.
WorkAudit audit_work(Events events, const WorkPlan& plan);

/// How far training got, and how fast.
struct Pace {
  double steps = 0;    ///< that took effect; each counts once, however often it was computed
  double seconds = 0;  ///< from the first begin to the last effect

  double rate() const { return seconds > 0 ? steps / seconds : 0; }
};
Pace pace_of(Events events, Lane lanes);

/// The resource usage of one process over time: medians of the first and of the last third of a soak.
struct Growth {
  std::string process;
  std::string what;
  double first = 0;
  double last = 0;
  double allowed = 0;  ///< upper bound of `last`

  bool grown() const { return last > allowed; }
};

/// Allows a growth of `growth_share` of the first median, or of `growth_floor` if that is more.
Growth judge_growth(std::string process, std::string what, const std::vector<double>& samples, double growth_share,
                    double growth_floor);

}  // namespace trireme::chaos
