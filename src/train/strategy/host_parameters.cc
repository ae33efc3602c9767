#include "train/strategy/host_parameters.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/format.h"
#include "optim/clipping.h"
#include "tensor/host_memory.h"

namespace trireme {

HostParameters::HostParameters(const torch::nn::Module& module, ParameterUpdates updates)
    : updates_(std::move(updates)) {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : trainable_parameters(module)) {
    torch::Tensor tensor = parameter.tensor;
    if (tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: gradients are summed in float32", parameter.name);
    }
    if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());  // gradients come in rows, whatever the layout
    names_.push_back(parameter.name);
    parameters_.push_back(tensor);
    host_.push_back(on_host(tensor));
    elements_.push_back(static_cast<std::size_t>(tensor.numel()));
    state_.emplace_back(optim::state_floats(updates_.config) * elements_.back());
    rules_.push_back(rule_of(updates_, parameter));
    configs_.push_back(updates_.config);
    configs_.back().l2 *= rules_.back().decay;
  }
  if (parameters_.empty()) fail<InvalidArgument>("the model has no parameters to train");
}

double HostParameters::clip_factor(std::span<const std::span<const float>> gradients, double samples, Step step) const {
  if (updates_.clip_norm <= 0) return 1;
  ExactSum squares;
  for (const std::span<const float> gradient : gradients) add_squares(gradient, squares);
  return optim::clip_factor(squares, samples, updates_.clip_norm, step);
}

void HostParameters::update(const optim::UpdateInput& input, Step step,
                            std::span<const std::span<const float>> gradients) {
  show_own();
  for (std::size_t i = 0; i < size(); ++i) {
    optim::UpdateInput own = input;
    own.lr *= rules_[i].lr;
    own.prune_below = prune_below(updates_, rules_[i], step, values(i));
    optim::apply_update(configs_[i], own, values(i), optim::state_at(configs_[i], state_[i], elements_[i]),
                        gradients[i]);
    copy_to_module(i);
  }
}

std::span<float> HostParameters::average(std::size_t i) {
  const auto array = optim::average_array(updates_.config);
  return array ? std::span(state_[i]).subspan(*array * elements_[i], elements_[i]) : std::span<float>();
}

void HostParameters::clear_pruned(std::size_t i, std::span<float> values) {
  if (!updates_.config.prunes) return;
  const std::span<const float> pruned = std::span(state_[i]).last(elements_[i]);
  for (std::size_t k = 0; k < pruned.size(); ++k) {
    if (pruned[k] != 0) values[k] = 0;
  }
}

void HostParameters::show_averages() {
  if (!averages_shown_) exchange_averages();
}

void HostParameters::show_own() {
  if (averages_shown_) exchange_averages();
}

void HostParameters::exchange_averages() {
  if (!optim::average_array(updates_.config)) return;
  for (std::size_t i = 0; i < size(); ++i) {
    std::ranges::swap_ranges(values(i), average(i));
    copy_to_module(i);
  }
  averages_shown_ = !averages_shown_;
}

void HostParameters::copy_to_module(std::size_t i) {
  torch::NoGradGuard no_grad;
  if (!parameters_[i].is_cpu()) parameters_[i].copy_(host_[i]);
}

void HostParameters::copy_all_to_module() {
  for (std::size_t i = 0; i < size(); ++i) copy_to_module(i);
}

std::vector<NamedParameter> HostParameters::state() {
  show_own();
  std::vector<NamedParameter> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back({checkpoint::model_tensor(names_[i]), host_[i]});
  const std::vector<std::string> states = optim::state_names(updates_.config);
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t k = 0; k < states.size(); ++k) {
      float* values = state_[i].data() + k * elements_[i];
      all.push_back({checkpoint::optimizer_tensor(names_[i], states[k]), torch::from_blob(values, host_[i].sizes())});
    }
  }
  return all;
}

}  // namespace trireme
