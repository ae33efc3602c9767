#include "plan/schedule/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/schedule/schedule_walk.h"

namespace trireme::plan {
namespace {

void check_times(const Schedule& schedule, std::span<const StageTimes> stages, double message) {
  if (stages.size() != 1 && stages.size() != schedule.stages()) {
    fail<InvalidArgument>("times of {} stages for a schedule of {}", stages.size(), schedule.stages());
  }
  const auto sane = [](double time) { return std::isfinite(time) && time >= 0; };
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageTimes& times = stages[stage];
    if (sane(times.forward) && sane(times.backward_input) && sane(times.backward_weight) && sane(times.activations)) {
      continue;
    }
    fail<InvalidArgument>("stage {}: times must be finite and not negative", stage);
  }
  if (!sane(message)) fail<InvalidArgument>("the time of a message is {}: it must be finite and not negative", message);
}

double duration(const StageTimes& times, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return times.forward;
    case ActionKind::kBackward:
      return times.backward();
    case ActionKind::kBackwardInput:
      return times.backward_input;
    case ActionKind::kBackwardWeight:
      return times.backward_weight;
    default:
      return 0;  // messages move while the rank computes
  }
}

/// What follows from the ranks.
void summarize(Evaluation& result) {
  double busy = 0;
  for (const RankUse& rank : result.ranks) {
    result.makespan = std::max(result.makespan, rank.last);
    busy += rank.busy;
  }
  const double all = result.makespan * static_cast<double>(result.ranks.size());
  result.bubble = all > 0 ? 1 - busy / all : 0;
}

/// The number of micro-batches that go through all chunks together: see `make_schedule`.
std::uint32_t first_group(const ScheduleShape& shape) {
  const std::uint32_t groups = std::max(1u, shape.micro_batches / shape.ranks);
  return (shape.micro_batches + groups - 1) / groups;
}

}  // namespace

std::uint32_t Evaluation::peak_activations() const {
  std::uint32_t peak = 0;
  for (const RankUse& rank : ranks) peak = std::max(peak, rank.peak_activations);
  return peak;
}

Evaluation evaluate(const Schedule& schedule, std::span<const StageTimes> stages, double message) {
  check_times(schedule, stages, message);
  ScheduleWalk walk(schedule);
  Evaluation result{.makespan = 0, .bubble = 0, .ranks = std::vector<RankUse>(schedule.ranks.size()), .actions = {}};
  std::vector<double> made(walk.ids(), 0);
  std::vector<std::uint32_t> held(schedule.ranks.size(), 0);
  std::vector<double> held_bytes(schedule.ranks.size(), 0);
  const auto visit = [&](Rank rank, const Action& action, const ScheduleWalk::Needs& needs) {
    const StageTimes& times = stages[stages.size() == 1 ? 0 : action.stage];
    RankUse& use = result.ranks[rank];
    double begin = use.last;
    for (const ScheduleWalk::Need& need : needs) {
      begin = std::max(begin, made[need.id] + (need.from_other_rank ? message : 0));
    }
    if (is_message(action.kind)) {  // a receive delays only what needs it, which follows it in the list
      made[walk.id_of(action)] = action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward
                                     ? made[needs.begin()->id]
                                     : made[needs.begin()->id] + message;
      return;
    }
    const double taken = duration(times, action.kind);
    if (use.busy == 0 && use.peak_activations == 0) use.first = begin;
    use.last = begin + taken;
    use.busy += taken;
    made[walk.id_of(action)] = use.last;
    result.actions.push_back({rank, action, begin, use.last});
    if (action.kind == ActionKind::kForward) {
      use.peak_activations = std::max(use.peak_activations, ++held[rank]);
      use.peak_bytes = std::max(use.peak_bytes, held_bytes[rank] += times.activations);
    } else if (action.kind != ActionKind::kBackwardInput) {
      --held[rank];
      held_bytes[rank] -= times.activations;
    }
  };
  if (!walk.run(visit)) fail<InvalidArgument>("schedule '{}' deadlocks: check_schedule says where", schedule.name);
  summarize(result);
  return result;
}

Evaluation evaluate_long(const ScheduleShape& shape, std::span<const StageTimes> stages, double message) {
  constexpr std::uint32_t kEnough = 6;  // micro-batches per rank
  constexpr std::uint32_t kFewer = 4;
  if (shape.micro_batches <= kEnough * shape.ranks) return evaluate(make_schedule(shape), stages, message);
  ScheduleShape shorter = shape;
  shorter.micro_batches = kFewer * shape.ranks;
  const double before = evaluate(make_schedule(shorter), stages, message).makespan;
  shorter.micro_batches = kEnough * shape.ranks;
  Evaluation result = evaluate(make_schedule(shorter), stages, message);
  const double each = (result.makespan - before) / ((kEnough - kFewer) * shape.ranks);
  const double more = shape.micro_batches - shorter.micro_batches;
  const double times = static_cast<double>(shape.micro_batches) / shorter.micro_batches;
  for (RankUse& rank : result.ranks) {
    rank.last += more * each;
    rank.busy *= times;
    if (shape.kind != ScheduleKind::kGpipe) continue;  // the others hold no more than they do now
    rank.peak_activations = shape.micro_batches;
    rank.peak_bytes *= times;
  }
  summarize(result);
  return result;
}

std::optional<double> bubble_formula(const ScheduleShape& shape) {
  const double p = shape.ranks;
  const double m = shape.micro_batches;
  const double v = shape.chunks;
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
    case ScheduleKind::k1F1B:
      return (p - 1) / (m + p - 1);
    case ScheduleKind::kInterleaved:  // with few micro-batches each waits for its own way through all stages
      return m >= p ? (p - 1) / (v * m + p - 1) : 1 - v * m / (v * p + m - 1);
    case ScheduleKind::kZbH1:
      if (m < p) return std::nullopt;
      return (p - 1) / (3 * m + p - 1);
    case ScheduleKind::kZbV:
      if (m < 2 * p - 1) return std::nullopt;
      return (p - 1) / (6 * m + p - 1);
  }
  return std::nullopt;
}

double peak_formula(const ScheduleShape& shape) {
  const std::uint32_t p = shape.ranks;
  const std::uint32_t m = shape.micro_batches;
  const std::uint32_t v = shape.chunks;
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
      return m;
    case ScheduleKind::k1F1B:
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbV:
      return std::min(m, p);
    case ScheduleKind::kInterleaved:
      if (v == 1) return std::min(m, p);
      return std::min<double>(std::uint64_t{v} * m, 2.0 * (p - 1) + (v - 1.0) * first_group(shape) + 1) / v;
  }
  return m;
}

}  // namespace trireme::plan
