#pragma once

#include <cstddef>

#include <nlohmann/json.hpp>

#include "trireme/optimizer.h"

namespace trireme::optim {

void to_json(nlohmann::json& json, Rule rule);
void from_json(const nlohmann::json& json, Rule& rule);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdateConfig, rule, momentum, dampening, alpha, beta1, beta2, epsilon, ftrl_beta, l1,
                                   l2, clip_value)

/// The inputs of an update that change from step to step.
struct UpdateInput {
  Step step = 1;              ///< number of this update, from 1: for bias correction; the first one also initialises
                              ///< the state
  double lr = 0;              ///< learning rate of this step
  double gradient_scale = 1;  ///< multiplies the gradient first: 1 / samples turns a sum into a mean
};

/// Throws InvalidArgument that names the field, its value and what is allowed.
void validate(const UpdateConfig& config);
void validate(const UpdateInput& input);

inline constexpr std::size_t kMaxStateArrays = 2;

/// Returns the optimizer state in floats per parameter: 0 to kMaxStateArrays.
std::size_t state_floats(Rule rule);

/// Returns `config.epsilon`, or torch's default for the rule if it is 0.
double effective_epsilon(const UpdateConfig& config);

}  // namespace trireme::optim
