#include "launch/job_progress.h"

#include <algorithm>
#include <cmath>

namespace trireme::launch {

using cluster::JobPhase;

observe::Progress describe(const cluster::JobStatus& status) {
  if (status.state == JobPhase::kGathering) return {.note = status.reason};
  if (status.state == JobPhase::kWaiting) return {.open_ended = status.plan.steps == 0, .note = status.reason};
  const auto& now = status.now;
  if (status.plan.steps == 0) {
    return {.step = now.step,
            .open_ended = true,
            .steps_per_s = now.seconds > 0 ? static_cast<double>(now.step) / now.seconds : NAN,
            .averages = status.averages};
  }
  const double rate = now.step == 0 ? NAN : now.seconds / static_cast<double>(now.step);
  const Step left = status.plan.steps - std::min(status.plan.steps, now.step);
  const Step per_epoch = std::max<Step>(1, status.plan.steps_per_epoch);
  return {.epoch = now.epoch,
          .epochs = (status.plan.steps + per_epoch - 1) / per_epoch,
          .step = now.step,
          .steps = status.plan.steps,
          .samples_per_s = now.samples_per_s,
          .loss = now.loss,
          .accuracy = now.accuracy,
          .clock_min = now.clock_min,
          .clock_max = now.clock_max,
          .seconds_left = rate * static_cast<double>(left),
          .note = {}};
}

}  // namespace trireme::launch
