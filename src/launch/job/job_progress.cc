#include "launch/job/job_progress.h"

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
            .steps_per_s = status.steps_per_s > 0 ? status.steps_per_s : NAN,
            .averages = status.averages};
  }
  const auto samples_left = static_cast<double>(status.plan.samples_in(status.plan.steps) -
                                                status.plan.samples_in(std::min(status.plan.steps, now.step)));
  const Step per_epoch = std::max<Step>(1, status.plan.steps_per_epoch);
  return {.epoch = now.epoch,
          .epochs = (status.plan.steps + per_epoch - 1) / per_epoch,
          .step = now.step,
          .steps = status.plan.steps,
          .samples_per_s = now.samples_per_s,
          .loss = now.loss,
          .metrics = now.metrics,
          .clock_min = now.clock_min,
          .clock_max = now.clock_max,
          .seconds_left = now.samples_per_s > 0 ? samples_left / now.samples_per_s : NAN,
          .note = {}};
}

}  // namespace trireme::launch
