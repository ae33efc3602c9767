#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

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
  double ema = 0;         ///< a moving average of the parameters is kept: this share of it stays in each step; 0: none
  bool prunes = false;    ///< parameters can be pruned, and then stay zero: see PruneOptions
};

/// Gradual magnitude pruning (Zhu & Gupta 2017): every few steps the smallest parameters of each matrix become zero and
/// stay so, at first many at a time, then ever fewer, until the wanted share is. Vectors (biases, norms) are left
/// alone.
struct PruneOptions {
  double sparsity = 0;  ///< the share that is zero in the end; above 0 and below 1
  Step from = 0;        ///< the first step at which some are pruned
  Step to = 0;          ///< the last; 0 = three quarters of the run
  Step every = 100;     ///< steps in between

  bool operator==(const PruneOptions&) const = default;
};

/// Parses "0.9", "0.9,from=100,to=1000,every=50". Throws InvalidArgument that says what was expected.
PruneOptions parse_pruning(std::string_view text);

/// The inverse.
std::string to_string(const PruneOptions& options);

/// Throws InvalidArgument.
void validate(const PruneOptions& options);

/// How some of the parameters differ from the others.
struct ParameterGroup {
  std::string match = {};  ///< names, with * and ? for any text and any letter: `*.bias`, `h.0.*`. `1d`: whatever has
                           ///< fewer than two dimensions: biases and norms
  double lr = 1;           ///< their learning rate is multiplied by this
  double decay = 1;        ///< their weight decay likewise
  bool frozen = false;     ///< they are not trained at all

  bool operator==(const ParameterGroup&) const = default;
};

/// Parses "1d:decay=0", "h.0.*:frozen", "head.*:lr=10,decay=0". Throws InvalidArgument that says what was expected.
ParameterGroup parse_group(std::string_view text);

/// The inverse.
std::string to_string(const ParameterGroup& group);

/// Parses several, with semicolons in between; none if `text` is empty.
std::vector<ParameterGroup> parse_groups(std::string_view text);

/// Whether a parameter of this name and so many dimensions belongs to the group.
bool matches(const ParameterGroup& group, std::string_view name, std::size_t dimensions);

/// What the learning rate is multiplied by at a step.
using Schedule = std::function<double(Step step)>;

struct ScheduleOptions {
  std::string shape = "constant";  ///< constant, cosine, linear, cosine:<steps>, or step:<every epochs>:<factor>
  Step warmup = 0;                 ///< steps over which the rate rises from almost zero
  Step steps = 0;  ///< length of the run: where cosine and linear reach zero, unless they have their own
  Step steps_per_epoch = 1;
};

/// Throws InvalidArgument for an unknown shape.
Schedule make_schedule(const ScheduleOptions& options);

}  // namespace trireme::optim
