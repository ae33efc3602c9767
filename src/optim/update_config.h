#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/optimizer.h"

namespace trireme::optim {

void to_json(nlohmann::json& json, Rule rule);
void from_json(const nlohmann::json& json, Rule& rule);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdateConfig, rule, momentum, dampening, alpha, beta1, beta2, epsilon, ftrl_beta, l1,
                                   l2, clip_value, ema, prunes)

/// The inputs of an update that change from step to step.
struct UpdateInput {
  Step step = 1;              ///< number of this update, from 1: for bias correction; the first one also initialises
                              ///< the state
  double lr = 0;              ///< learning rate of this step
  double gradient_scale = 1;  ///< multiplies the gradient first: 1 / samples turns a sum into a mean
  double prune_below = 0;     ///< with `prunes`: parameters that are smaller now are pruned
};

/// Throws InvalidArgument that names the field, its value and what is allowed.
void validate(const UpdateConfig& config);
void validate(const UpdateInput& input);

inline constexpr std::size_t kMaxStateArrays = 4;

/// Returns the state in floats per parameter, 0 to kMaxStateArrays: that of the rule, then the moving average, then
/// which parameters are pruned (1, else 0), as far as they are wanted.
std::size_t state_floats(const UpdateConfig& config);

/// Returns what the arrays of the state are called in checkpoints, in order: 0, 1, ema, pruned.
std::vector<std::string> state_names(const UpdateConfig& config);

/// Returns which array is the moving average; nullopt if there is none.
std::optional<std::size_t> average_array(const UpdateConfig& config);

/// Returns `config.epsilon`, or torch's default for the rule if it is 0.
double effective_epsilon(const UpdateConfig& config);

}  // namespace trireme::optim
