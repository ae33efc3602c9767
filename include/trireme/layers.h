#pragma once

// A network as a list of layers, so that it can be divided among processes: each makes only the layers it computes.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/types.h>

#include "trireme/model.h"
#include "trireme/parameter_slice.h"

namespace trireme {

class LayerWatch;

namespace parallel {
class TensorGroup;
}

/// What flows from a layer to the next, by name. The main tensor is "x"; a skip connection is another name, which the
/// layers in between pass on unchanged. Tensors without a name in a layer's result end there.
using Activations = std::map<std::string, torch::Tensor>;

/// Where a layer is made.
struct LayerPlace {
  parallel::TensorGroup* tensor = nullptr;  ///< the ranks that share each layer; null: it is whole here
  /// Where the last layer notes that its output stays divided along the last dimension among `tensor`, for a task that
  /// can use parts (Task::outcome_of_part). Null: all ranks want the whole output.
  bool* divided_output = nullptr;
  /// Where a layer notes, by the parameter's name, that what it registered is a slice. Null: nobody asks.
  std::map<std::string, ParameterSlice>* slices = nullptr;
};

/// How activations go through a layer.
using LayerRun = std::function<Activations(Activations activations)>;

/// A part of a network, the smallest that a process can have of it.
struct Layer {
  std::string name = {};  ///< of its own in the list; chooses its random numbers

  /// Makes the layer's modules, registers them in `root` under the names they have in the whole network (see
  /// `register_at`), and returns its forward. Initial values come from torch's generator, which is seeded for this
  /// layer. A layer that has a part in a tie finds the parameter in `root`.
  std::function<LayerRun(torch::nn::Module& root, const LayerPlace& place)> make = {};

  double cost = 1;  ///< of its forward and backward, relative to the others'

  /// It looks at LayerPlace::tensor. A list with a layer that does not cannot be divided by a tensor group.
  bool divisible = false;
};

/// A parameter that several layers use: GPT's embedding of tokens, which is its last layer too. Where they are in
/// different processes each has a copy; the last of the layers owns the parameter, and gets the others' gradients.
struct Tie {
  std::string parameter = {};            ///< its name in the whole network
  std::vector<std::string> layers = {};  ///< that use it, in the order of the list; at least two

  /// Registers the parameter in `root`; called once where any of its layers is made, before them. Torch's generator is
  /// seeded for this parameter, so that its values do not depend on which of the layers are here.
  std::function<void(torch::nn::Module& root, const LayerPlace& place)> make = {};
};

/// Some neighbours in a list of layers.
struct LayerRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

/// A network that is not made yet: its layers in the order in which activations go through them, and its ties.
///
///   trireme::LayerList net({{.name = "in", .make = [](torch::nn::Module& root, const trireme::LayerPlace&) {
///                              auto fc = trireme::register_at(root, "fc1", torch::nn::Linear(784, 64));
///                              return trireme::on_x([fc](torch::Tensor x) mutable { return fc(x.flatten(1)); });
///                            }}, ...});
class LayerList {
 public:
  /// `inputs` are the names of the activations that the network's inputs become, in order. `base` chooses the initial
  /// values; without one it is drawn from torch's default generator: seed it first. Throws InvalidArgument if there is
  /// no layer, if a name is empty or there twice, or if a tie does not name at least two layers in their order.
  explicit LayerList(std::vector<Layer> layers, std::vector<Tie> ties = {}, std::vector<std::string> inputs = {"x"},
                     std::optional<std::uint64_t> base = {});

  std::size_t size() const { return layers_.size(); }
  const Layer& operator[](std::size_t index) const { return layers_[index]; }
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<Tie>& ties() const { return ties_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  std::uint64_t base() const { return base_; }
  std::vector<double> costs() const;

  /// Throws InvalidArgument if there is no layer of this name.
  std::size_t index_of(const std::string& layer) const;

  /// Returns the network's inputs under their names. Throws InvalidArgument if it does not take this many.
  Activations activations_of(const std::vector<torch::Tensor>& inputs) const;

 private:
  std::vector<Layer> layers_;
  std::vector<Tie> ties_;
  std::vector<std::string> inputs_;
  std::uint64_t base_ = 0;
};

/// Layers of a list that this process has. Their parameters have the names, and the initial values, that they have in
/// the whole network, whichever layers are here.
class MadeLayers {
 public:
  /// Makes the layers of `ranges`, which do not overlap; no others take memory. Leaves torch's default generator in a
  /// state that depends on the list's base alone. Throws InvalidArgument if a layer or a tie does not make what it
  /// must; what the layers throw comes out.
  MadeLayers(std::shared_ptr<const LayerList> list, const std::vector<LayerRange>& ranges,
             const LayerPlace& place = {});

  const LayerList& list() const { return *list_; }
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }

  /// Returns what layer `index`, which must be here, makes of `activations`. While a lane is computed (LaneSeed) its
  /// random numbers depend on the lane and the layer's name alone. Tensors come out contiguous, and so do their
  /// gradients: what the next layer computes does not depend on whether it got them through memory or by a message.
  Activations forward(std::size_t index, Activations activations) const;

  /// The same through the layers of `range`.
  Activations forward(LayerRange range, Activations activations) const;

  /// Returns for each parameter of the module, by name, the layers of the list that use it, ascending: one, or those of
  /// its tie, also where they are not here.
  const std::map<std::string, std::vector<std::size_t>>& users() const { return users_; }

  /// Returns for each buffer of the module, by name, the layer that has it.
  const std::map<std::string, std::size_t>& buffer_layers() const { return buffer_layers_; }

  /// The parameters of which only a slice is here.
  const std::map<std::string, ParameterSlice>& slices() const { return slices_; }

  /// The ranks among which the last layer, which is here, leaves its output divided; null: it is whole. See outcome_of.
  parallel::TensorGroup* divided_output() const { return divided_output_; }

  /// From now on `watch` (null: nobody) is told of each layer that is computed. It outlives what is computed meanwhile.
  void set_watch(LayerWatch* watch) const { watch_ = watch; }

 private:
  void note_users(std::size_t index);

  std::shared_ptr<const LayerList> list_;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<LayerRun> runs_;  // by index in the list; null: not here
  std::map<std::string, std::vector<std::size_t>> users_;
  std::map<std::string, std::size_t> buffer_layers_;
  std::map<std::string, ParameterSlice> slices_;
  parallel::TensorGroup* divided_output_ = nullptr;
  mutable LayerWatch* watch_ = nullptr;  // of those who compute, not a matter of the layers
};

/// Makes the whole network in this process: a model that knows its layers. With `place.divided_output` the model's is
/// set as the last layer says.
Model whole_model(LayerList layers);
Model whole_model(std::shared_ptr<const LayerList> layers, const LayerPlace& place = {});

/// A network of yours that exists already, with a layer for each of its modules, which take and give one tensor. Every
/// process has made all of it, with the same seed; it can be divided all the same.
LayerList layers_of(torch::nn::Sequential net);

/// Makes a list of layers for samples of a schema: see MakeModel.
using MakeLayers = std::function<LayerList(const data::Schema& samples, std::int64_t outputs)>;

/// Makes `name` known as register_model does, for a network that can be divided. Throws as that does.
void register_layers(const std::string& name, MakeLayers make);

/// Returns the layers of what make_model would make, without making any of them; null if that network cannot be
/// divided. Throws as make_model does.
std::shared_ptr<const LayerList> make_layers(const std::string& name, const data::Schema& samples,
                                             std::int64_t outputs);

/// Returns the module at `path` below `root` ("h.3"; empty: root itself), making those on the way that are not there.
torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path);

/// Registers `module`, a std::shared_ptr or a TORCH_MODULE holder, in `root` under `path`, "h.3.attn", and returns it.
template <typename ModuleType>
ModuleType register_at(torch::nn::Module& root, const std::string& path, ModuleType module) {
  const std::size_t dot = path.rfind('.');
  torch::nn::Module& parent = module_at(root, dot == std::string::npos ? "" : path.substr(0, dot));
  parent.register_module(dot == std::string::npos ? path : path.substr(dot + 1), module);
  return module;
}

/// Returns the parameter `name` ("wte.weight") of `root`. Throws InvalidArgument if there is none.
torch::Tensor parameter_at(const torch::nn::Module& root, const std::string& name);

/// Returns the forward of a layer that looks at "x" alone, and passes the rest on.
template <typename Function>
LayerRun on_x(Function function) {
  return [function = std::move(function)](Activations activations) mutable {
    torch::Tensor& x = activations["x"];
    x = function(std::move(x));
    return activations;
  };
}

}  // namespace trireme
