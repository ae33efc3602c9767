#include "train/strategy/own_parameters.h"

#include "base/error.h"
#include "checkpoint/format.h"
#include "tensor/device/device_kernels.h"
#include "train/strategy/device_parameters.h"
#include "train/strategy/host_parameters.h"

namespace trireme {

OwnParameters::OwnParameters(const torch::nn::Module& module, ParameterUpdates updates)
    : updates_(std::move(updates)), loss_scale_(optim::first_scale(updates_.loss_scale).floats()) {
  torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : trainable_parameters(module)) {
    torch::Tensor tensor = parameter.tensor;
    if (tensor.scalar_type() != torch::kFloat32) {
      fail<InvalidArgument>("parameter '{}' is not float32: gradients are summed in float32", parameter.name);
    }
    if (!tensor.is_contiguous()) tensor.set_data(tensor.contiguous());  // gradients come in rows, whatever the layout
    names_.push_back(parameter.name);
    parameters_.push_back(tensor);
    elements_.push_back(static_cast<std::size_t>(tensor.numel()));
    rules_.push_back(rule_of(updates_, parameter));
    configs_.push_back(updates_.config);
    configs_.back().l2 *= rules_.back().decay;
  }
  if (parameters_.empty()) fail<InvalidArgument>("the model has no parameters to train");
}

void OwnParameters::count(bool finite, Step step) {
  if (!updates_.loss_scale.dynamic) return;
  const optim::LossScale after =
      optim::after_step(optim::LossScale::from(loss_scale_), finite, updates_.loss_scale.growth_every);
  if (!finite) log_step_left_out(after, step);
  optim::check_useful(after, step);
  loss_scale_ = after.floats();
}

std::optional<optim::LossScale> OwnParameters::adaptive_scale() const {
  return updates_.loss_scale.dynamic ? std::optional(optim::LossScale::from(loss_scale_)) : std::nullopt;
}

void OwnParameters::show_averages() {
  if (averages_shown_ || !has_averages()) return;
  exchange_averages();
  averages_shown_ = true;
}

void OwnParameters::show_own() {
  if (!averages_shown_) return;
  exchange_averages();
  averages_shown_ = false;
}

optim::UpdateInput OwnParameters::input_of(std::size_t i, const optim::UpdateInput& input, Step step,
                                           std::span<const float> values) const {
  optim::UpdateInput own = input;
  own.lr *= rules_[i].lr;
  own.prune_below = prune_below(updates_, rules_[i], step, values);
  return own;
}

std::vector<NamedParameter> OwnParameters::named(std::span<const torch::Tensor> values,
                                                 std::span<float* const> arrays) {
  std::vector<NamedParameter> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back({checkpoint::model_tensor(names_[i]), values[i]});
  const std::vector<std::string> states = optim::state_names(updates_.config);
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t k = 0; k < states.size(); ++k) {
      all.push_back({checkpoint::optimizer_tensor(names_[i], states[k]),
                     torch::from_blob(arrays[i] + k * elements_[i], values[i].sizes())});
    }
  }
  if (updates_.loss_scale.dynamic) {
    all.push_back({std::string(optim::kLossScaleTensor),
                   torch::from_blob(loss_scale_.data(), {static_cast<std::int64_t>(loss_scale_.size())})});
  }
  return all;
}

std::unique_ptr<OwnParameters> make_own_parameters(const torch::nn::Module& module, ParameterUpdates updates) {
  const std::vector<NamedParameter> parameters = trainable_parameters(module);
  const bool on_device = !parameters.empty() && device::runs_on(parameters.front().tensor.device());
  if (on_device) return std::make_unique<DeviceParameters>(module, std::move(updates));
  return std::make_unique<HostParameters>(module, std::move(updates));
}

}  // namespace trireme
