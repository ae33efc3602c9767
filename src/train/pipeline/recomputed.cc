#include "train/pipeline/recomputed.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

namespace trireme::parallel {
namespace {

using torch::autograd::variable_list;

/// Stands for a layer in the graph, and has only its input.
struct RecomputedNode : torch::autograd::Node {
  std::function<Activations(Activations)> again;
  Activations inputs;                       // detached
  std::vector<std::string> differentiable;  // of them
  std::vector<std::string> outputs;         // those that have gradients, in order

  variable_list apply(variable_list&& gradients) override {
    const torch::AutoGradMode record(true);
    Activations leaves = inputs;
    for (const std::string& name : differentiable) leaves[name] = leaves[name].detach().requires_grad_();
    const Activations computed = again(leaves);
    variable_list roots;
    variable_list root_gradients;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const torch::Tensor& output = computed.at(outputs[i]);
      if (!gradients[i].defined() || !output.requires_grad()) continue;
      roots.push_back(output);
      root_gradients.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
    variable_list result;
    for (const std::string& name : differentiable) result.push_back(leaves[name].grad());
    return result;
  }

  void release_variables() override {
    inputs.clear();
    again = nullptr;
  }
};

}  // namespace

Activations run_recomputed(const std::function<Activations(Activations)>& run,
                           std::function<Activations(Activations)> again, Activations activations, bool trains) {
  const auto node = std::make_shared<RecomputedNode>();
  node->again = std::move(again);
  variable_list tensors;
  for (auto& [name, tensor] : activations) {
    if (tensor.requires_grad()) {
      node->differentiable.push_back(name);
      tensors.push_back(tensor);
    }
    tensor = tensor.detach();
  }
  node->set_next_edges(torch::autograd::collect_next_edges(tensors));
  node->inputs = activations;
  Activations outputs = [&] {
    const torch::NoGradGuard no_grad;
    return run(std::move(activations));
  }();
  for (auto& [name, tensor] : outputs) {
    tensor = tensor.detach();  // what was passed on is a tensor of its own here
    if (!tensor.is_floating_point() || (tensors.empty() && !trains)) continue;
    node->outputs.push_back(name);
    torch::autograd::create_gradient_edge(tensor, node);
  }
  return outputs;
}

}  // namespace trireme::parallel
