#include "tensor/load_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "checkpoint/safetensors/convert.h"
#include "tensor/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

constexpr std::size_t kNamed = 3;  // of many problems

using Views = std::map<std::string, const checkpoint::TensorView*>;  // by the model's names

/// Returns the tensors of `source` whose names begin with `prefix`, by the rest.
Views views_under(const std::string& prefix, const checkpoint::PlainModel& source, const std::filesystem::path& path) {
  Views views;
  for (const checkpoint::TensorView& view : source.tensors) {
    if (view.name.starts_with(prefix)) views.emplace(view.name.substr(prefix.size()), &view);
  }
  if (views.empty()) {
    fail<InvalidArgument>("no tensor in {} has the prefix '{}': the first of its {} is '{}'", path.string(), prefix,
                          source.tensors.size(), source.tensors.front().name);
  }
  return views;
}

const checkpoint::TensorView* find(const Views& views, const ModelTensor& wanted) {
  for (const std::string& name : wanted.names) {
    if (const auto found = views.find(name); found != views.end()) return found->second;
  }
  return nullptr;
}

bool fits(const checkpoint::TensorView& view, const torch::Tensor& tensor) {
  const torch::ScalarType type = scalar_type_of(view.dtype);
  const bool converts = c10::isFloatingType(type) && c10::isFloatingType(tensor.scalar_type());
  return view.shape == tensor.sizes().vec() && (converts || type == tensor.scalar_type());
}

std::string kind_of(torch::ScalarType type, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", c10::toString(type), fmt::join(shape, ", "));
}

/// Returns what is wrong with each tensor that is missing, surplus, or of another shape or type.
std::vector<std::string> compare(const std::vector<ModelTensor>& model, Views views, bool all) {
  std::vector<std::string> problems;
  for (const ModelTensor& wanted : model) {
    const std::string& name = wanted.names.front();
    if (const checkpoint::TensorView* view = find(views, wanted); view == nullptr) {
      if (all) problems.push_back(fmt::format("'{}' is missing", name));
    } else if (!fits(*view, wanted.tensor)) {
      problems.push_back(fmt::format("'{}' is {}, and {} in the model", name,
                                     kind_of(scalar_type_of(view->dtype), view->shape),
                                     kind_of(wanted.tensor.scalar_type(), wanted.tensor.sizes().vec())));
    }
    for (const std::string& known : wanted.names) views.erase(known);
  }
  for (const auto& surplus : views) problems.push_back(fmt::format("the model has no '{}'", surplus.first));
  return problems;
}

void fill(torch::Tensor target, const checkpoint::TensorView& view) {
  torch::Tensor host = torch::empty(view.shape, torch::TensorOptions(scalar_type_of(view.dtype)));
  // A file of another writer may have them at any address.
  if (!view.data.empty()) std::memcpy(bytes_of(host).data(), view.data.data(), view.data.size());
  target.copy_(host);
}

}  // namespace

std::vector<ModelTensor> model_tensors(const torch::nn::Module& module) {
  std::vector<ModelTensor> all;
  std::map<const at::TensorImpl*, std::size_t> places;
  const auto add = [&](const std::string& name, const torch::Tensor& tensor, bool buffer) {
    if (!tensor.defined()) return;
    const auto [place, added] = places.emplace(tensor.unsafeGetTensorImpl(), all.size());
    if (added) all.push_back({.tensor = tensor, .buffer = buffer});
    all[place->second].names.push_back(name);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value(), false);
  for (const auto& item : module.named_buffers()) add(item.key(), item.value(), true);
  return all;
}

LoadReport load_tensors(const std::vector<ModelTensor>& model, const std::filesystem::path& path,
                        const LoadOptions& options) {
  const checkpoint::PlainModel source = checkpoint::read_model(path);
  const Views views = views_under(options.prefix, source, path);
  const std::vector<std::string> problems = compare(model, views, /*all=*/options.prefix.empty());
  if (!problems.empty()) {
    const std::size_t named = std::min(kNamed, problems.size());
    const std::string more = problems.size() > named ? fmt::format("; and {} more", problems.size() - named) : "";
    fail<InvalidArgument>("{} does not fit the model: {}{}. Was it saved from another one?", path.string(),
                          fmt::join(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(named), "; "),
                          more);
  }
  torch::NoGradGuard no_grad;
  LoadReport report{.of = model.size()};
  for (const ModelTensor& wanted : model) {
    const checkpoint::TensorView* const view = find(views, wanted);
    if (view == nullptr) continue;
    fill(wanted.tensor, *view);
    ++report.loaded;
  }
  return report;
}

LoadReport load_model(torch::nn::Module& module, const std::filesystem::path& path, const LoadOptions& options) {
  return load_tensors(model_tensors(module), path, options);
}

}  // namespace trireme
