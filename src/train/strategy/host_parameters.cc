#include "train/strategy/host_parameters.h"

#include "base/error.h"
#include "checkpoint/format.h"
#include "tensor/host_memory.h"

namespace trireme {

HostParameters::HostParameters(const torch::nn::Module& module, const optim::UpdateConfig& update) : update_(update) {
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
    state_.emplace_back(optim::state_floats(update_.rule) * elements_.back());
  }
  if (parameters_.empty()) fail<InvalidArgument>("the model has no parameters to train");
}

void HostParameters::update(std::size_t i, const optim::UpdateInput& input, std::span<const float> gradient) {
  optim::apply_update(update_, input, values(i), optim::state_at(update_.rule, state_[i], elements_[i]), gradient);
}

void HostParameters::copy_to_module(std::size_t i) {
  torch::NoGradGuard no_grad;
  if (!parameters_[i].is_cpu()) parameters_[i].copy_(host_[i]);
}

void HostParameters::copy_all_to_module() {
  for (std::size_t i = 0; i < size(); ++i) copy_to_module(i);
}

std::vector<NamedParameter> HostParameters::state() {
  std::vector<NamedParameter> all;
  for (std::size_t i = 0; i < size(); ++i) all.push_back({checkpoint::model_tensor(names_[i]), host_[i]});
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t k = 0; k < optim::state_floats(update_.rule); ++k) {
      float* values = state_[i].data() + k * elements_[i];
      all.push_back({checkpoint::optimizer_tensor(names_[i], k), torch::from_blob(values, host_[i].sizes())});
    }
  }
  return all;
}

}  // namespace trireme
