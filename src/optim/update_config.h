#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace trireme::optim {

/// How an averaged gradient changes the parameters. Numerics follow `torch::optim`; FTRL, which torch has not, follows
/// McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches" (FTRL-Proximal).
enum class Rule { kSgd, kMomentum, kNesterov, kAdagrad, kRmsProp, kAdam, kAdamW, kFtrl };

/// The rule called `text` (sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, ftrl). Throws InvalidArgument.
Rule parse_rule(std::string_view text);
std::string_view to_string(Rule rule);

void to_json(nlohmann::json& json, Rule rule);
void from_json(const nlohmann::json& json, Rule& rule);

/// The constants of a run's updates; what changes from step to step is in UpdateInput. Doubles, as in torch: 1 - beta2
/// taken from a float would already be wrong in the fifth digit.
struct UpdateConfig {
  Rule rule = Rule::kSgd;
  double momentum = 0.9;  ///< momentum, nesterov: what is kept of the last step
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
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdateConfig, rule, momentum, dampening, alpha, beta1, beta2, epsilon, ftrl_beta, l1,
                                   l2, clip_value)

/// One step's part of an update.
struct UpdateInput {
  Step step = 1;              ///< number of this update, from 1: bias correction; the first one also starts the state
  double lr = 0;              ///< learning rate of this step
  double gradient_scale = 1;  ///< multiplies the gradient first: 1 / samples makes the mean of a sum
};

/// Throw InvalidArgument that names the field, its value and what is allowed.
void validate(const UpdateConfig& config);
void validate(const UpdateInput& input);

inline constexpr std::size_t kMaxStateArrays = 2;

/// Optimizer state in floats per parameter: 0 to kMaxStateArrays.
std::size_t state_floats(Rule rule);

/// What `config.epsilon` stands for: itself, or torch's default for the rule where it is 0.
double effective_epsilon(const UpdateConfig& config);

}  // namespace trireme::optim
