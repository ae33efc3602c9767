#include "train/strategy/host_parameters.h"

#include <algorithm>

#include "optim/clipping.h"
#include "tensor/device/host_memory.h"

namespace trireme {

HostParameters::HostParameters(const torch::nn::Module& module, ParameterUpdates updates)
    : OwnParameters(module, std::move(updates)) {
  for (std::size_t i = 0; i < size(); ++i) {
    host_.push_back(on_host(parameters_[i]));
    state_.emplace_back(optim::state_floats(updates_.config) * elements_[i]);
  }
}

double HostParameters::clip_factor(Gradients gradients, double samples, Step step) const {
  if (updates_.clip_norm <= 0) return 1;
  ExactSum squares;
  for (const std::span<const float> gradient : gradients) add_squares(gradient, squares);
  return optim::clip_factor(squares, samples, updates_.clip_norm, step);
}

bool HostParameters::counts(Gradients gradients) const {
  return !updates_.loss_scale.dynamic || std::ranges::all_of(gradients, optim::all_finite);
}

void HostParameters::update(const optim::UpdateInput& input, Step step, Gradients gradients) {
  show_own();
  for (std::size_t i = 0; i < size(); ++i) {
    optim::apply_update(configs_[i], input_of(i, input, step, values(i)), values(i),
                        optim::state_at(configs_[i], state_[i], elements_[i]), gradients[i]);
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

void HostParameters::exchange_averages() {
  for (std::size_t i = 0; i < size(); ++i) {
    std::ranges::swap_ranges(values(i), average(i));
    copy_to_module(i);
  }
}

void HostParameters::copy_to_module(std::size_t i) {
  torch::NoGradGuard no_grad;
  if (!parameters_[i].is_cpu()) parameters_[i].copy_(host_[i]);
}

void HostParameters::take_state() {
  for (std::size_t i = 0; i < size(); ++i) copy_to_module(i);
}

std::vector<NamedParameter> HostParameters::state() {
  show_own();
  std::vector<float*> arrays;
  for (std::vector<float>& state : state_) arrays.push_back(state.data());
  return named(host_, arrays);
}

}  // namespace trireme
