#pragma once

#include <limits>

#include "plan/schedule/schedule.h"

namespace trireme::plan {

/// In `Schedule::rank_of_stage`: no rank has the stage.
inline constexpr Rank kNobody = std::numeric_limits<Rank>::max();

/// Throws InvalidArgument, naming the rank and the action, unless every rank can walk its list to the end and the step
/// is complete: each stage is on one rank, and each rank has one; each micro-batch has in each stage one forward and
/// one backward, or one input and one weight gradient; if there are messages, there are all that cross ranks, and no
/// others; and no rank waits for another that waits for it. Takes memory in proportion to the number of actions.
void check_schedule(const Schedule& schedule);

}  // namespace trireme::plan
