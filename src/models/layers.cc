#include "trireme/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/ranges.h>
#include <torch/utils.h>

#include "base/error.h"
#include "base/mutex.h"
#include "models/lane_seed.h"
#include "models/layer_boundary.h"
#include "models/layer_watch.h"
#include "models/parallel_block.h"

namespace trireme {
namespace {

std::uint64_t draw_base() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

/// Torch's default generator is one for all threads: layers are made one after the other.
Mutex& making() {
  static Mutex mutex;
  return mutex;
}

}  // namespace

LayerList::LayerList(std::vector<Layer> layers, std::vector<Tie> ties, std::vector<std::string> inputs,
                     std::optional<std::uint64_t> base)
    : layers_(std::move(layers)),
      ties_(std::move(ties)),
      inputs_(std::move(inputs)),
      base_(base ? *base : draw_base()) {
  if (layers_.empty()) fail<InvalidArgument>("a network needs at least one layer");
  std::set<std::string> names;
  for (const Layer& layer : layers_) {
    if (layer.name.empty() || !names.insert(layer.name).second) {
      fail<InvalidArgument>("every layer needs a name of its own, and '{}' is {}", layer.name,
                            layer.name.empty() ? "none" : "there twice");
    }
    if (!layer.make) fail<InvalidArgument>("layer '{}' does not say how it is made", layer.name);
  }
  for (const Tie& tie : ties_) {
    std::vector<std::size_t> users;
    for (const std::string& layer : tie.layers) users.push_back(index_of(layer));
    const bool ascending = std::ranges::adjacent_find(users, std::ranges::greater_equal()) == users.end();
    if (users.size() < 2 || !ascending || !tie.make) {
      fail<InvalidArgument>(
          "the tie of '{}' must say how it is made, and name at least two layers in the order of the network, not: {}",
          tie.parameter, fmt::join(tie.layers, ", "));
    }
  }
}

std::vector<double> LayerList::costs() const {
  std::vector<double> costs;
  for (const Layer& layer : layers_) costs.push_back(layer.cost);
  return costs;
}

std::size_t LayerList::index_of(const std::string& layer) const {
  const auto found = std::ranges::find(layers_, layer, &Layer::name);
  if (found == layers_.end()) fail<InvalidArgument>("there is no layer '{}' in this network", layer);
  return static_cast<std::size_t>(found - layers_.begin());
}

Activations LayerList::activations_of(const std::vector<torch::Tensor>& inputs) const {
  if (inputs.size() != inputs_.size()) {
    fail<InvalidArgument>(
        "the network takes {} input(s), and the samples have {}: choose fields with data::select, or "
        "write a task of your own",
        inputs_.size(), inputs.size());
  }
  Activations activations;
  for (std::size_t i = 0; i < inputs.size(); ++i) activations.emplace(inputs_[i], inputs[i]);
  return activations;
}

MadeLayers::MadeLayers(std::shared_ptr<const LayerList> list, const std::vector<LayerRange>& ranges,
                       const LayerPlace& place)
    : list_(std::move(list)), module_(std::make_shared<torch::nn::Module>("Network")), runs_(list_->size()) {
  LayerPlace here = place;
  here.slices = &slices_;
  const auto whole = std::ranges::find(list_->layers(), false, &Layer::divisible);
  if (models::is_divided(place) && whole != list_->layers().end()) {
    fail<InvalidArgument>(
        "layer '{}' of this network cannot be divided among the ranks of a tensor group: use tensor=1", whole->name);
  }
  const MutexLock lock(making());
  std::set<std::string> made_ties;
  for (const LayerRange& range : ranges) {
    TRIREME_CHECK(range.begin <= range.end && range.end <= list_->size(), "layers that the network does not have");
    for (std::size_t index = range.begin; index < range.end; ++index) {
      const Layer& layer = (*list_)[index];
      TRIREME_CHECK(!runs_[index], "a layer in two ranges");
      for (const Tie& tie : list_->ties()) {
        if (std::ranges::count(tie.layers, layer.name) == 0 || !made_ties.insert(tie.parameter).second) continue;
        torch::manual_seed(models::mix_name(list_->base(), "tie " + tie.parameter));
        tie.make(*module_, here);
        std::vector<std::size_t>& users = users_[tie.parameter];
        for (const std::string& user : tie.layers) users.push_back(list_->index_of(user));
        parameter_at(*module_, tie.parameter);  // or it says what is missing
      }
      torch::manual_seed(models::mix_name(list_->base(), "layer " + layer.name));
      runs_[index] = layer.make(*module_, here);
      if (!runs_[index]) fail<InvalidArgument>("layer '{}' was made without a forward", layer.name);
      note_users(index);
    }
  }
  torch::manual_seed(models::mix_name(list_->base(), "made"));
  if (place.slices != nullptr) *place.slices = slices_;
  if (place.divided_output != nullptr && *place.divided_output) divided_output_ = place.tensor;
}

void MadeLayers::note_users(std::size_t index) {
  for (const auto& item : module_->named_parameters()) {
    if (!users_.contains(item.key())) users_[item.key()].push_back(index);
  }
  for (const auto& item : module_->named_buffers()) buffer_layers_.emplace(item.key(), index);
}

Activations MadeLayers::forward(std::size_t index, Activations activations) const {
  TRIREME_CHECK(index < runs_.size() && runs_[index], "a layer that is not here");
  if (watch_ != nullptr) watch_->before_forward(index);
  const models::LayerSeed random((*list_)[index].name);
  activations = models::pass_boundary(runs_[index](std::move(activations)));
  if (watch_ == nullptr) return activations;
  watch_->after_forward(index);
  return models::watch_backward(std::move(activations), index, *watch_);
}

Activations MadeLayers::forward(LayerRange range, Activations activations) const {
  for (std::size_t index = range.begin; index < range.end; ++index) {
    activations = forward(index, std::move(activations));
  }
  return activations;
}

Model whole_model(LayerList layers) { return whole_model(std::make_shared<const LayerList>(std::move(layers))); }

Model whole_model(std::shared_ptr<const LayerList> layers, const LayerPlace& place) {
  const auto made = std::make_shared<const MadeLayers>(layers, std::vector{LayerRange{0, layers->size()}}, place);
  Model model(made->module(), [made](const std::vector<torch::Tensor>& inputs) {
    const LayerList& list = made->list();
    return made->forward({0, list.size()}, list.activations_of(inputs)).at("x");
  });
  model.layers = std::move(layers);
  model.made = made;
  model.divided_output = made->divided_output();
  return model;
}

LayerList layers_of(torch::nn::Sequential net) {
  std::vector<Layer> layers;
  std::size_t position = 0;
  for (const auto& child : net->named_children()) {
    const torch::nn::AnyModule module = *(net->begin() + static_cast<std::ptrdiff_t>(position++));
    double cost = 1;
    for (const torch::Tensor& parameter : child.value()->parameters()) cost += static_cast<double>(parameter.numel());
    layers.push_back({.name = child.key(),
                      .make = [module, existing = child.value(), name = child.key()](
                                  torch::nn::Module& root, const LayerPlace& /*place*/) -> LayerRun {
                        root.register_module(name, existing);
                        return on_x([kept = torch::nn::AnyModule(module)](const torch::Tensor& x) mutable {
                          return kept.forward(x);
                        });
                      },
                      .cost = cost});
  }
  return LayerList(std::move(layers));
}

torch::nn::Module& module_at(torch::nn::Module& root, const std::string& path) {
  torch::nn::Module* module = &root;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    const auto children = module->named_children();
    const auto* known = children.find(name);
    module = known != nullptr ? known->get()
                              : module->register_module(name, std::make_shared<torch::nn::Module>(name)).get();
    begin = end + 1;
  }
  return *module;
}

torch::Tensor parameter_at(const torch::nn::Module& root, const std::string& name) {
  const auto parameters = root.named_parameters();
  const torch::Tensor* found = parameters.find(name);
  if (found == nullptr) fail<InvalidArgument>("there is no parameter '{}' where a layer wants it", name);
  return *found;
}

}  // namespace trireme
