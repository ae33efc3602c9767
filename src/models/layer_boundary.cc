#include "models/layer_boundary.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "tensor/device/device_kernels.h"

namespace trireme::models {
namespace {

using torch::autograd::variable_list;

/// What has gaps between its rows, on a GPU, was made so (wide_linear), and costs a copy of all of it to change. It
/// goes to no other layer: it is what the last one gives.
torch::Tensor dense(const torch::Tensor& tensor) {
  const bool rows = device::runs_on(tensor.device()) && tensor.dim() > 1 && tensor.stride(-1) == 1 &&
                    tensor.stride(-2) > tensor.size(-1);
  return rows ? tensor : tensor.contiguous();
}

/// All that goes from a layer to the next.
struct BoundaryNode : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    for (torch::Tensor& gradient : gradients) {
      if (gradient.defined()) gradient = dense(gradient);
    }
    return std::move(gradients);
  }
};

}  // namespace

Activations pass_boundary(Activations activations) {
  variable_list differentiable;
  const bool recording = torch::GradMode::is_enabled();
  for (auto& [name, tensor] : activations) {
    if (recording && tensor.requires_grad()) {
      differentiable.push_back(tensor);
    } else {
      tensor = tensor.contiguous();
    }
  }
  if (differentiable.empty()) return activations;
  const auto node = std::make_shared<BoundaryNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(differentiable));
  for (auto& [name, tensor] : activations) {
    if (!tensor.requires_grad()) continue;
    // A tensor of its own, on the same memory if that is dense: the next layer may change it in place.
    torch::Tensor passed = dense(tensor.detach());
    torch::autograd::create_gradient_edge(passed, node);
    tensor = std::move(passed);
  }
  return activations;
}

}  // namespace trireme::models
