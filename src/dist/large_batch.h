#pragma once

#include <torch/torch.h>

#include "optim/schedule.h"

namespace trireme {

struct LargeBatchOptions {
  std::uint32_t size = 1;    ///< how many times as large the batch is as the one the rate was found for: the workers
  double warmup_epochs = 5;  ///< over which the factor rises from 1 to `size`
  Step steps_per_epoch = 1;
};

/// The learning rate for a batch that grew with the number of workers (Goyal et al. 2017, "Accurate, Large Minibatch
/// SGD"): `size` times as high, reached gradually, since the first steps would not bear it; times `then`, which knows
/// nothing of this. Throws InvalidArgument.
optim::Schedule scale_by_size(const LargeBatchOptions& options, optim::Schedule then = optim::make_schedule({}));

/// Sets the learning rate of all parameter groups. Before each step, with a optim::Schedule: `set_learning_rate(sgd,
/// 0.1 * schedule(step))`.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

}  // namespace trireme
