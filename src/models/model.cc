#include "trireme/model.h"

#include <functional>
#include <map>
#include <unordered_set>

#include <fmt/ranges.h>

#include "trireme/layers.h"

#include "base/error.h"
#include "base/suggest.h"
#include "models/ready.h"

namespace trireme {

std::vector<NamedParameter> trainable_parameters(const torch::nn::Module& module) {
  std::vector<NamedParameter> parameters;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    const torch::Tensor& tensor = item.value();
    if (tensor.requires_grad() && seen.insert(tensor.unsafeGetTensorImpl()).second) {
      parameters.push_back({item.key(), tensor});
    }
  }
  return parameters;
}

void Model::check_inputs(const std::vector<torch::Tensor>& inputs, std::size_t wanted) {
  if (inputs.size() == wanted) return;
  fail<InvalidArgument>(
      "the network takes {} input(s), and the samples have {}: choose fields with data::select, or "
      "write a task of your own",
      wanted, inputs.size());
}

namespace {

/// A network of the program: whole, or as layers.
struct OwnModel {
  MakeModel make;
  MakeLayers layers;
};

/// Those of the program, by name.
std::map<std::string, OwnModel>& registry() {
  static std::map<std::string, OwnModel> models;
  return models;
}

void register_own(const std::string& name, OwnModel own) {
  if (models::ready().contains(name) || !registry().emplace(name, std::move(own)).second) {
    fail<InvalidArgument>("there is a model '{}' already: give yours another name", name);
  }
}

/// What `name` stands for: layers, or else a model.
struct Found {
  std::shared_ptr<const LayerList> layers;
  std::function<Model()> make;
};

Found find_model(const std::string& name, const data::Schema& samples, std::int64_t outputs) {
  const auto listed = [](LayerList layers) { return std::make_shared<const LayerList>(std::move(layers)); };
  if (const auto own = registry().find(name); own != registry().end()) {
    if (own->second.layers) return {listed(own->second.layers(samples, outputs)), {}};
    return {nullptr, [&make = own->second.make, &samples, outputs] { return make(samples, outputs); }};
  }
  if (name.ends_with(".pt") || name.ends_with(".pth")) return {nullptr, [name] { return load_torchscript(name); }};
  const Settings settings = Settings::parse(name);
  if (const auto found = models::ready().find(settings.name); found != models::ready().end()) {
    const models::ReadyModel& ready = found->second;
    settings.check_keys(ready.settings);
    if (ready.layers) return {listed(ready.layers(settings, samples, outputs)), {}};
    return {nullptr, [&ready, settings, &samples, outputs] { return ready.make(settings, samples, outputs); }};
  }
  fail<InvalidArgument>("there is no model '{}'{}: use {}, or register one of your own (see examples/own_model.cc)",
                        name, did_you_mean(name, model_names()), fmt::join(model_names(), ", "));
}

}  // namespace

void register_model(const std::string& name, MakeModel make) { register_own(name, {.make = std::move(make)}); }

void register_layers(const std::string& name, MakeLayers make) { register_own(name, {.layers = std::move(make)}); }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : models::ready()) names.push_back(name);
  for (const auto& [name, make] : registry()) names.push_back(name);
  return names;
}

Model make_model(const std::string& name, const data::Schema& samples, std::int64_t outputs) {
  const Found found = find_model(name, samples, outputs);
  Model model = found.layers ? whole_model(found.layers) : found.make();
  model.steady = models::ready().contains(name.substr(0, name.find(':')));
  return model;
}

std::shared_ptr<const LayerList> make_layers(const std::string& name, const data::Schema& samples,
                                             std::int64_t outputs) {
  return find_model(name, samples, outputs).layers;
}

}  // namespace trireme
