#include "train/strategy/device_parameters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "optim/clipping.h"
#include "optim/pruning.h"
#include "tensor/device/host_memory.h"

namespace trireme {

DeviceParameters::DeviceParameters(const torch::nn::Module& module, ParameterUpdates updates)
    : OwnParameters(module, std::move(updates)) {
  const auto arrays = static_cast<std::int64_t>(optim::state_floats(updates_.config));
  for (const torch::Tensor& parameter : parameters_) {
    state_.push_back(torch::zeros({arrays, parameter.numel()}, parameter.options().requires_grad(false)));
  }
}

device::PendingNumber DeviceParameters::start_squares(Gradients gradients) const {
  const float* begin = gradients.front().data();
  const float* end = begin;
  for (const std::span<const float> gradient : gradients) {
    begin = std::min(begin, gradient.data());
    end = std::max(end, gradient.data() + gradient.size());
  }
  return device::sum_of_squares({begin, end}, device());
}

/// Gradients that are not finite have squares that are not.
double DeviceParameters::squares(Gradients gradients) const {
  return foreseen_squares_ ? foreseen_squares_->wait() : start_squares(gradients).wait();
}

double DeviceParameters::clip_factor(Gradients gradients, double samples, Step step) const {
  return updates_.clip_norm <= 0 ? 1 : optim::clip_factor(squares(gradients), samples, updates_.clip_norm, step);
}

bool DeviceParameters::counts(Gradients gradients) const {
  return !updates_.loss_scale.dynamic || std::isfinite(squares(gradients));
}

void DeviceParameters::find_gradients(Gradients gradients) {
  const auto same = [](const std::span<const float> gradient, const float* known) { return gradient.data() == known; };
  if (updates_on_device_ && std::ranges::equal(gradients, known_gradients_, same)) return;
  std::vector<device::UpdatePart> parts;
  known_gradients_.clear();
  for (std::size_t i = 0; i < size(); ++i) {
    known_gradients_.push_back(gradients[i].data());
    device::UpdatePart& part = parts.emplace_back();
    part.parameters = parameters_[i].data_ptr<float>();
    part.gradient = gradients[i].data();
    part.elements = elements_[i];
    for (std::size_t k = 0; k < optim::state_floats(updates_.config); ++k) {
      part.state[k] = state_[i].data_ptr<float>() + k * elements_[i];
    }
  }
  updates_on_device_ = device::make_updates(updates_.config, parts, device());
  prepared_.reset();
}

std::vector<optim::UpdateConstants> DeviceParameters::constants_of(const optim::UpdateInput& input, Step step) const {
  const bool prunes_now = updates_.config.prunes && optim::sparsity_at(updates_.prune, step).has_value();
  std::vector<optim::UpdateConstants> constants;
  for (std::size_t i = 0; i < size(); ++i) {
    // What is pruned is chosen on the host, by the same code as everywhere; seldom.
    const torch::Tensor values = prunes_now && rules_[i].prunable ? on_host(parameters_[i]) : torch::Tensor();
    const std::span<const float> floats(values.defined() ? values.data_ptr<float>() : nullptr,
                                        values.defined() ? elements_[i] : 0);
    constants.push_back(optim::update_constants(configs_[i], input_of(i, input, step, floats)));
  }
  return constants;
}

void DeviceParameters::begin_step() {
  OwnParameters::begin_step();
  foreseen_squares_.reset();
}

void DeviceParameters::foresee(Gradients gradients, const optim::UpdateInput& input, Step step) {
  if (updates_.clip_norm > 0 || updates_.loss_scale.dynamic) foreseen_squares_ = start_squares(gradients);
  prepare(input, step);
}

void DeviceParameters::prepare(const optim::UpdateInput& input, Step step) {
  if (!updates_on_device_) return;  // it does not know yet where gradients are
  const Prepared wanted{.update = input.step, .lr = input.lr, .step = step};
  if (prepared_ == wanted) return;
  show_own();
  updates_on_device_->prepare(constants_of(input, step));
  prepared_ = wanted;
}

void DeviceParameters::update(const optim::UpdateInput& input, Step step, Gradients gradients) {
  show_own();
  find_gradients(gradients);
  prepare(input, step);
  prepared_.reset();
  updates_on_device_->run(static_cast<float>(input.gradient_scale));
}

void DeviceParameters::exchange_averages() {
  torch::NoGradGuard no_grad;
  const auto array = static_cast<std::int64_t>(*optim::average_array(updates_.config));
  for (std::size_t i = 0; i < size(); ++i) {
    torch::Tensor average = state_[i][array].view(parameters_[i].sizes());
    const torch::Tensor own = parameters_[i].clone();
    parameters_[i].copy_(average);
    average.copy_(own);
  }
}

std::vector<NamedParameter> DeviceParameters::state() {
  torch::NoGradGuard no_grad;
  show_own();
  host_.clear();
  host_state_.clear();
  std::vector<float*> arrays;
  for (std::size_t i = 0; i < size(); ++i) {
    host_.push_back(on_host(parameters_[i]));
    host_state_.push_back(on_host(state_[i]));
    arrays.push_back(host_state_[i].data_ptr<float>());
  }
  return named(host_, arrays);
}

void DeviceParameters::take_state() {
  torch::NoGradGuard no_grad;
  TRIREME_CHECK(host_.size() == size(), "there is no state to take");
  prepared_.reset();
  for (std::size_t i = 0; i < size(); ++i) {
    parameters_[i].copy_(host_[i]);
    state_[i].copy_(host_state_[i]);
  }
}

}  // namespace trireme
