#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trireme/types.h"

namespace trireme::optim {

/// How an averaged gradient changes the parameters. Numerics follow `torch::optim`; FTRL, which torch does not have,
/// follows McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches" (FTRL-Proximal).
enum class Rule { kSgd, kMomentum, kNesterov, kAdagrad, kRmsProp, kAdam, kAdamW, kFtrl };

/// Returns the rule named by `text` (sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, ftrl). Throws
/// InvalidArgument.
Rule parse_rule(std::string_view text);
std::string_view to_string(Rule rule);

/// The constants of a run's updates; what changes from step to step is in UpdateInput. Doubles, as in torch: 1 - beta2
/// taken from a float would already be wrong in the fifth digit.
struct UpdateConfig {
  Rule rule = Rule::kSgd;
  double momentum = 0.9;  ///< momentum, nesterov: the share of the last step that is kept
  double dampening = 0;   ///< momentum: the gradient enters the buffer times (1 - dampening)
  double alpha = 0.99;    ///< rmsprop: decay of the mean square
  double beta1 = 0.9;     ///< adam, adamw: decay of the mean
  double beta2 = 0.999;   ///< adam, adamw: decay of the mean square
  double epsilon = 0;     ///< added to the root; 0 takes torch's: 1e-10 for adagrad, 1e-8 for rmsprop, adam, adamw
  double ftrl_beta = 1;   ///< ftrl: beta of the paper; smooths the first steps
  double l1 = 0;          ///< ftrl: lambda1 of the paper; makes parameters exactly zero
  double l2 = 0;          ///< weight decay: added to the gradient; adamw: decoupled; ftrl: lambda2 of the paper
  double clip_value = 0;  ///< clamps each element of the averaged gradient to [-clip_value, clip_value]; 0: off
};

/// What the learning rate is multiplied by at a step.
using Schedule = std::function<double(Step step)>;

struct ScheduleOptions {
  std::string shape = "constant";  ///< constant, cosine, linear, or step:<every epochs>:<factor>
  Step warmup = 0;                 ///< steps over which the rate rises from almost zero
  Step steps = 0;                  ///< length of the run: where cosine and linear reach zero
  Step steps_per_epoch = 1;
};

/// Throws InvalidArgument for an unknown shape.
Schedule make_schedule(const ScheduleOptions& options);

}  // namespace trireme::optim
