#pragma once

#include <functional>
#include <string>

#include "base/units.h"

namespace trireme::optim {

/// What the learning rate is multiplied by at a step.
using Schedule = std::function<double(Step step)>;

struct ScheduleOptions {
  std::string shape = "constant";  ///< constant, cosine, linear, or step:<every epochs>:<factor>
  Step warmup = 0;                 ///< steps over which the rate rises from almost nothing
  Step steps = 0;                  ///< length of the run: where cosine and linear reach zero
  Step steps_per_epoch = 1;
};

/// Throws InvalidArgument for an unknown shape.
Schedule make_schedule(const ScheduleOptions& options);

}  // namespace trireme::optim
