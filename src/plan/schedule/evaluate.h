#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/schedule/schedule.h"

namespace trireme::plan {

/// How long one micro-batch takes in a stage, in any unit, and what its forward leaves for the backward.
struct StageTimes {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double activations = 1;  ///< held from the forward until the weight gradient is there: bytes, or any unit

  double backward() const { return backward_input + backward_weight; }
};

/// What one action took.
struct ActionTime {
  Rank rank = 0;
  Action action;
  double begin = 0;
  double end = 0;
};

struct RankUse {
  double busy = 0;
  double first = 0;                    ///< when its first action began
  double last = 0;                     ///< when its last one ended
  std::uint32_t peak_activations = 0;  ///< the most that it held at once, of all its stages
  double peak_bytes = 0;               ///< the same, weighed by `StageTimes::activations`

  /// Between its first and its last action: what is left of the bubble if ranks need not begin together.
  double idle_inside() const { return last - first - busy; }
};

struct Evaluation {
  double makespan = 0;
  double bubble = 0;  ///< share of all ranks' time, from 0 to the makespan, in which they compute nothing
  std::vector<RankUse> ranks;
  std::vector<ActionTime> actions;  ///< those that compute: of each rank in its order

  std::uint32_t peak_activations() const;  ///< of the rank with the most
};

/// Runs a sound schedule (`check_schedule`) by discrete events. Every rank begins at 0 and starts an action as soon as
/// it can; data from another rank arrives `message` after it was made, and moves while both compute. `stages` has the
/// times of each stage, or one entry for all. The same input gives the same bits. Throws InvalidArgument unless the
/// numbers of stages agree and all times are finite and not negative, or if the schedule deadlocks.
Evaluation evaluate(const Schedule& schedule, std::span<const StageTimes> stages, double message = 0);

/// Returns what `evaluate` would for a schedule of this shape, to within half a percent, but runs at most 6
/// micro-batches per rank, and has `actions` of these: beyond, a pipeline is in its steady state, and each one adds as
/// much as the last.
Evaluation evaluate_long(const ScheduleShape& shape, std::span<const StageTimes> stages, double message = 0);

/// The share of bubble that theory gives for equal stages, T_F = T_I = T_W and free messages; nullopt where we know no
/// formula (zb-h1 with fewer micro-batches than ranks p, zb-v with fewer than 2p-1).
std::optional<double> bubble_formula(const ScheduleShape& shape);

/// The most activations that a rank holds, in micro-batches of all its stages.
double peak_formula(const ScheduleShape& shape);

}  // namespace trireme::plan
