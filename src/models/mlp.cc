#include "models/mlp.h"

namespace trireme::models {

MlpImpl::MlpImpl(const MlpOptions& options) {
  std::int64_t width = options.features;
  std::vector<std::int64_t> widths = options.hidden;
  widths.push_back(options.classes);
  for (const std::int64_t next : widths) {
    layers_.push_back(register_module("fc" + std::to_string(layers_.size() + 1), torch::nn::Linear(width, next)));
    width = next;
  }
}

torch::Tensor MlpImpl::forward(const torch::Tensor& features) {
  torch::Tensor x = features.flatten(1);
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) x = torch::relu(layers_[i]->forward(x));
  return layers_.back()->forward(x);
}

}  // namespace trireme::models
