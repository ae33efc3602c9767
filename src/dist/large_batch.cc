#include <algorithm>

#include "trireme/dist.h"

#include "base/error.h"

namespace trireme::dist {

optim::Schedule scale_by_size(const LargeBatchOptions& options, optim::Schedule then) {
  if (options.size == 0) fail<InvalidArgument>("a batch that is 0 times as large: size is at least 1");
  if (!(options.warmup_epochs >= 0)) {
    fail<InvalidArgument>("a warm-up of {} epochs: 0 is none", options.warmup_epochs);
  }
  const double warmup = options.warmup_epochs * static_cast<double>(options.steps_per_epoch);
  return [size = options.size, warmup, then = std::move(then)](Step step) {
    const double done = warmup > 0 ? std::min(1.0, static_cast<double>(step) / warmup) : 1.0;
    return then(step) * (1 + done * (size - 1.0));
  };
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double lr) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
}

}  // namespace trireme::dist
