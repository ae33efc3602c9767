#pragma once

#include <functional>
#include <vector>

#include <torch/autograd.h>
#include <torch/custom_class.h>
#include <torch/types.h>

namespace trireme::parallel {

using Tensors = std::vector<torch::Tensor>;

/// A function and its gradient, both given as functions: what exchanges data with other processes in the forward does
/// so in the backward as well, in its place in the order of backward. `forward` may save tensors in its context.
struct LinkedFunction {
  using Forward = std::function<Tensors(torch::autograd::AutogradContext* context, const Tensors& inputs)>;
  /// Takes the gradients of the outputs, returns those of the inputs (undefined for those that need none).
  using Backward = std::function<Tensors(torch::autograd::AutogradContext* context, const Tensors& gradients)>;

  Forward forward;
  Backward backward;
};

/// Calls `function.forward`, and remembers `function.backward` for autograd.
Tensors call_linked(const Tensors& inputs, const LinkedFunction& function);

}  // namespace trireme::parallel
