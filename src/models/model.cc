#include "trireme/model.h"

#include <map>
#include <unordered_set>

#include <fmt/ranges.h>

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

/// Those of the program, by name.
std::map<std::string, MakeModel>& registry() {
  static std::map<std::string, MakeModel> models;
  return models;
}

}  // namespace

void register_model(const std::string& name, MakeModel make) {
  if (models::ready().contains(name) || !registry().emplace(name, std::move(make)).second) {
    fail<InvalidArgument>("there is a model '{}' already: give yours another name", name);
  }
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : models::ready()) names.push_back(name);
  for (const auto& [name, make] : registry()) names.push_back(name);
  return names;
}

Model make_model(const std::string& name, const data::Schema& samples, std::int64_t outputs) {
  if (const auto own = registry().find(name); own != registry().end()) return own->second(samples, outputs);
  if (name.ends_with(".pt") || name.ends_with(".pth")) return load_torchscript(name);
  const Settings settings = Settings::parse(name);
  if (const auto found = models::ready().find(settings.name); found != models::ready().end()) {
    settings.check_keys(found->second.settings);
    return found->second.make(settings, samples, outputs);
  }
  fail<InvalidArgument>("there is no model '{}'{}: use {}, or register one of your own (see examples/own_model.cc)",
                        name, did_you_mean(name, model_names()), fmt::join(model_names(), ", "));
}

}  // namespace trireme
