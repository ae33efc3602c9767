#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "trireme/schema.h"

namespace trireme {

class LayerList;
class MadeLayers;

namespace parallel {
class TensorGroup;
}

/// A network as the trainer uses it: its parameters, and how inputs go through it.
struct Model {
  /// One tensor per input field of the samples, in the order of the schema; each of batch × the field's shape.
  using Forward = std::function<torch::Tensor(const std::vector<torch::Tensor>& inputs)>;

  std::shared_ptr<torch::nn::Module> module = {};
  Forward run;  ///< null: only a task of one's own knows how

  /// What it was made of (layers.h); null: it cannot be divided among processes.
  std::shared_ptr<const LayerList> layers = {};

  /// These layers as they are in `module`; null if `layers` is.
  std::shared_ptr<const MadeLayers> made = {};

  /// The processes among which its output is divided along the last dimension: `run` returns this one's part, and tasks
  /// know it. Null: it is whole.
  parallel::TensorGroup* divided_output = nullptr;

  /// Whether `run` does the same work each time, but for parameters, buffers and inputs: then a GPU can be given all of
  /// it at once. Networks that come with Trireme say so; say so of yours if it has no state of its own and draws no
  /// random numbers but by LibTorch's generators.
  bool steady = false;

  Model() = default;
  Model(std::shared_ptr<torch::nn::Module> parameters, Forward forward)
      : module(std::move(parameters)), run(std::move(forward)) {}

  /// From any module of your own, a std::shared_ptr<Net> or a TORCH_MODULE holder, whose class has forward of one to
  /// three tensors, or of a vector of them. One without forward needs a task of its own.
  template <std::derived_from<torch::nn::Module> Net>
  Model(std::shared_ptr<Net> net)  // NOLINT(google-explicit-constructor): reads well at the call
      : module(net), run(forward_of(net)) {}

  template <typename Net>
  Model(const torch::nn::ModuleHolder<Net>& holder) : Model(holder.ptr()) {}  // NOLINT(google-explicit-constructor)

  /// Throws InvalidArgument if the network does not take this many inputs.
  torch::Tensor forward(const std::vector<torch::Tensor>& inputs) const { return run(inputs); }
  torch::Tensor forward(const torch::Tensor& input) const { return run({input}); }

 private:
  template <typename Net>
  static Forward forward_of(const std::shared_ptr<Net>& net) {
    using Tensor = torch::Tensor;
    using Many = const std::vector<torch::Tensor>&;
    if constexpr (requires(Tensor x) {
                    { net->forward(x) } -> std::convertible_to<Tensor>;
                  }) {
      return [net](Many x) -> Tensor { return check_inputs(x, 1), net->forward(x[0]); };
    } else if constexpr (requires(Tensor x) {
                           { net->forward(x, x) } -> std::convertible_to<Tensor>;
                         }) {
      return [net](Many x) -> Tensor { return check_inputs(x, 2), net->forward(x[0], x[1]); };
    } else if constexpr (requires(Tensor x) {
                           { net->forward(x, x, x) } -> std::convertible_to<Tensor>;
                         }) {
      return [net](Many x) -> Tensor { return check_inputs(x, 3), net->forward(x[0], x[1], x[2]); };
    } else if constexpr (requires(Many x) {
                           { net->forward(x) } -> std::convertible_to<Tensor>;
                         }) {
      return [net](Many x) -> Tensor { return net->forward(x); };
    } else {
      return nullptr;
    }
  }
  static void check_inputs(const std::vector<torch::Tensor>& inputs, std::size_t wanted);
};

struct NamedParameter {
  std::string name = {};
  torch::Tensor tensor = {};  ///< the module's own, not a copy
};

/// Returns the parameters of `module` that require gradients, in the order of registration. One that is registered
/// under several names (tied weights) counts once, under its first name.
std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& module);

/// Makes a network for samples of a schema; `outputs` is how many numbers per sample (or position) the task wants.
using MakeModel = std::function<Model(const data::Schema& samples, std::int64_t outputs)>;

/// Makes `name` known to `make_model`, and to `--model` of a program that calls `train_main`. Throws InvalidArgument if
/// there is one already.
void register_model(const std::string& name, MakeModel make);

/// Returns the names of the networks that come with Trireme, and of those registered.
std::vector<std::string> model_names();

/// Builds the network `name`; settings of one that comes with Trireme stand behind a colon:
/// `gpt-tiny:layers=4,dropout=0.1` (GPTs: layers, heads, width, dropout; vit-tiny: layers, heads, width, patch; mlp,
/// lstm, wide-deep: layers, width; ResNets: width). Or loads the one of TorchScript in a file whose name ends with .pt.
/// Initial parameters come from torch's random generator: seed it first. Throws InvalidArgument if there is no such
/// network, or the samples do not fit it.
Model make_model(const std::string& name, const data::Schema& samples, std::int64_t outputs);

/// Loads a network of TorchScript, which torch.jit.script or torch.jit.trace in Python made and torch.jit.save wrote:
/// its parameters and buffers under their names, and its forward. What is in the file is code, and forward runs it:
/// load only what you trust. Throws InvalidArgument if there is no such file, or it has no forward.
Model load_torchscript(const std::filesystem::path& file);

/// Writes a network that load_torchscript returned, with the parameters it has now, on the CPU and in evaluation mode,
/// for torch.jit.load; a reader sees the old file or the new one. Throws InvalidArgument if `model` is another one,
/// IoError.
void save_torchscript(const Model& model, const std::filesystem::path& file);

}  // namespace trireme
