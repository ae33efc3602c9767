#include "models/layer_watch.h"

#include <torch/autograd.h>
#include <torch/types.h>

namespace trireme::models {
namespace {

class WatchedBoundary : public torch::autograd::Function<WatchedBoundary> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, std::int64_t layer,
                                                std::int64_t watch, at::TensorList tensors) {
    context->saved_data["layer"] = layer;
    context->saved_data["watch"] = watch;
    torch::autograd::variable_list passed;
    for (const torch::Tensor& tensor : tensors) passed.push_back(tensor.view_as(tensor));
    return passed;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* const watch = reinterpret_cast<LayerWatch*>(context->saved_data["watch"].toInt());
    watch->before_backward(static_cast<std::size_t>(context->saved_data["layer"].toInt()));
    gradients.insert(gradients.begin(), 2, torch::Tensor());
    return gradients;
  }
};

}  // namespace

Activations watch_backward(Activations activations, std::size_t layer, LayerWatch& watch) {
  torch::autograd::variable_list tensors;
  for (const auto& [name, tensor] : activations) {
    if (tensor.requires_grad()) tensors.push_back(tensor);
  }
  if (tensors.empty()) return activations;
  tensors = WatchedBoundary::apply(static_cast<std::int64_t>(layer), reinterpret_cast<std::int64_t>(&watch),
                                   at::TensorList(tensors));
  std::size_t next = 0;
  for (auto& [name, tensor] : activations) {
    if (tensor.requires_grad()) tensor = tensors[next++];
  }
  return activations;
}

}  // namespace trireme::models
