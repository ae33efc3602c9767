#include "train/strategy/parameter_updates.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "optim/pruning.h"

namespace trireme {
namespace {

constexpr std::size_t kShown = 5;

auto group_of(const std::vector<optim::ParameterGroup>& groups, const std::string& name, const torch::Tensor& tensor) {
  return std::ranges::find_if(groups, [&](const optim::ParameterGroup& group) {
    return optim::matches(group, name, static_cast<std::size_t>(tensor.dim()));
  });
}

std::string some_names(const torch::nn::Module& module) {
  std::string names;
  std::size_t count = 0;
  for (const auto& item : module.named_parameters()) {
    if (count++ == kShown) return names + ", ...";
    names += (names.empty() ? "" : ", ") + item.key();
  }
  return names;
}

}  // namespace

ParameterRule rule_of(const ParameterUpdates& updates, const NamedParameter& parameter) {
  ParameterRule rule{.prunable = updates.config.prunes && parameter.tensor.dim() >= 2};
  if (const auto group = group_of(updates.groups, parameter.name, parameter.tensor); group != updates.groups.end()) {
    rule.lr = group->lr;
    rule.decay = group->decay;
  }
  return rule;
}

void freeze(torch::nn::Module& module, const std::vector<optim::ParameterGroup>& groups) {
  std::vector<bool> used(groups.size());
  for (const auto& item : module.named_parameters()) {
    const auto group = group_of(groups, item.key(), item.value());
    if (group == groups.end()) continue;
    used[static_cast<std::size_t>(group - groups.begin())] = true;
    if (group->frozen) item.value().requires_grad_(false);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (used[i]) continue;
    fail<InvalidArgument>("no parameter belongs to group '{}'{}; the model has {}", optim::to_string(groups[i]),
                          i > 0 ? ", or those that match it belong to an earlier group" : "", some_names(module));
  }
}

void freeze_here(torch::nn::Module& module, const std::vector<optim::ParameterGroup>& groups) {
  for (const auto& item : module.named_parameters()) {
    const auto group = group_of(groups, item.key(), item.value());
    if (group != groups.end() && group->frozen) item.value().requires_grad_(false);
  }
}

double prune_below(const ParameterUpdates& updates, const ParameterRule& rule, Step step,
                   std::span<const float> values) {
  if (!rule.prunable) return 0;
  const std::optional<double> sparsity = optim::sparsity_at(updates.prune, step);
  return sparsity ? optim::prune_threshold(values, *sparsity) : 0;
}

void log_step_left_out(const optim::LossScale& after, Step step) {
  log_info("step_left_out", "left out a step whose gradient was not finite",
           {{"step", step}, {"loss_scale", after.scale}, {"left_out", after.skipped}});
}

double sparsity_of(const torch::nn::Module& module) {
  double zeros = 0;
  double all = 0;
  for (const NamedParameter& parameter : trainable_parameters(module)) {
    if (parameter.tensor.dim() < 2) continue;
    zeros += parameter.tensor.eq(0).sum().item<double>();
    all += static_cast<double>(parameter.tensor.numel());
  }
  return all > 0 ? zeros / all : 0;
}

}  // namespace trireme
