#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace trireme {

/// A network as the trainer uses it: its parameters, and how a batch goes through it.
struct Model {
  std::shared_ptr<torch::nn::Module> module = {};
  std::function<torch::Tensor(const torch::Tensor& features)> forward;

  Model() = default;

  /// From any module of your own: a std::shared_ptr<Net> or a TORCH_MODULE holder whose class has forward(Tensor).
  template <typename Net>
  Model(std::shared_ptr<Net> net)  // NOLINT(google-explicit-constructor): reads well at the call
      : module(net), forward([net](const torch::Tensor& features) { return net->forward(features); }) {}

  template <typename Net>
  Model(const torch::nn::ModuleHolder<Net>& holder) : Model(holder.ptr()) {}  // NOLINT(google-explicit-constructor)
};

struct NamedParameter {
  std::string name = {};
  torch::Tensor tensor = {};  ///< the module's own, not a copy
};

/// Returns the parameters of `module` that require gradients, in the order of registration. One that is registered
/// under several names (tied weights) counts once, under its first name.
std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& module);

/// Returns the names of the networks that come with Trireme.
std::vector<std::string> model_names();

/// Builds the network `name` for samples of `shape` and `classes` classes. Its initial parameters come from torch's
/// random generator: seed it first. Throws InvalidArgument if there is no such network, or the shape does not fit.
Model make_model(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t classes);

}  // namespace trireme
