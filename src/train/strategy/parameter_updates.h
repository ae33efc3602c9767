#pragma once

#include <optional>
#include <span>
#include <vector>

#include "trireme/model.h"
#include "trireme/optimizer.h"

#include "optim/loss_scale.h"

namespace trireme {

/// How the parameters of a model are updated, in whatever strategy.
struct ParameterUpdates {
  optim::UpdateConfig config = {};
  std::vector<optim::ParameterGroup> groups = {};
  double clip_norm = 0;            ///< the mean gradient of an update is at most so long; 0 = any length
  optim::PruneOptions prune = {};  ///< if `config.prunes`
  optim::LossScaleOptions loss_scale = {};
};

/// What is peculiar to one parameter.
struct ParameterRule {
  double lr = 1;
  double decay = 1;
  bool prunable = false;  ///< a matrix, or of more dimensions
};

/// The first group that a parameter belongs to decides.
ParameterRule rule_of(const ParameterUpdates& updates, const NamedParameter& parameter);

/// Makes the parameters of groups that are frozen need no gradient. Throws InvalidArgument if a group matches nothing.
void freeze(torch::nn::Module& module, const std::vector<optim::ParameterGroup>& groups);

/// The same for a part of a model: what matches nothing here may match elsewhere.
void freeze_here(torch::nn::Module& module, const std::vector<optim::ParameterGroup>& groups);

/// Returns the magnitude below which the parameter is pruned in `step`, by its present values; 0 = it is not.
double prune_below(const ParameterUpdates& updates, const ParameterRule& rule, Step step,
                   std::span<const float> values);

/// Says that `step` was left out because its gradient was not finite.
void log_step_left_out(const optim::LossScale& after, Step step);

/// Returns which share of the parameters that can be pruned is zero.
double sparsity_of(const torch::nn::Module& module);

}  // namespace trireme
