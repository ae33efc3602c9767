#include "tensor/files/load_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/ranges.h>

#include "base/error.h"
#include "checkpoint/safetensors/convert.h"
#include "checkpoint/safetensors/published_gpt2.h"
#include "tensor/device/host_memory.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

constexpr std::size_t kNamed = 3;  // of many problems

/// A tensor of a file, and how it becomes one of the model.
struct Source {
  const checkpoint::TensorView* view = nullptr;
  bool transposed = false;  ///< its two extents change places
  bool more_rows = false;   ///< it may have more rows than the model, which takes the first
};

using Sources = std::map<std::string, Source>;  // by the model's names

/// Returns the tensors of `model` whose names begin with `prefix`, by the rest.
Sources sources_under(const std::string& prefix, const checkpoint::PlainModel& model,
                      const std::filesystem::path& path) {
  std::vector<checkpoint::TensorView> views;  // as if the prefix were not there
  std::vector<const checkpoint::TensorView*> originals;
  for (const checkpoint::TensorView& view : model.tensors) {
    if (!view.name.starts_with(prefix)) continue;
    views.push_back(view);
    views.back().name.erase(0, prefix.size());
    originals.push_back(&view);
  }
  if (views.empty()) {
    fail<InvalidArgument>("no tensor in {} has the prefix '{}': the first of its {} is '{}'", path.string(), prefix,
                          model.tensors.size(), model.tensors.front().name);
  }
  const std::vector<checkpoint::PublishedTensor> published = checkpoint::recognise_gpt2(views);
  Sources sources;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (published.empty()) {
      sources.emplace(views[i].name, Source{.view = originals[i]});
    } else if (!published[i].name.empty()) {
      sources.emplace(
          published[i].name,
          Source{.view = originals[i], .transposed = published[i].transposed, .more_rows = published[i].positions});
    }
  }
  return sources;
}

const Source* find(const Sources& sources, const ModelTensor& wanted) {
  for (const std::string& name : wanted.names) {
    if (const auto found = sources.find(name); found != sources.end()) return &found->second;
  }
  return nullptr;
}

std::vector<std::int64_t> shape_of(const Source& source, const torch::Tensor& wanted) {
  std::vector<std::int64_t> shape = source.view->shape;
  if (source.transposed) std::ranges::reverse(shape);
  if (source.more_rows && wanted.dim() > 0 && !shape.empty()) shape[0] = std::min(shape[0], wanted.size(0));
  return shape;
}

bool fits(const Source& source, const torch::Tensor& tensor) {
  const torch::ScalarType type = scalar_type_of(source.view->dtype);
  const bool converts = c10::isFloatingType(type) && c10::isFloatingType(tensor.scalar_type());
  return shape_of(source, tensor) == tensor.sizes().vec() && (converts || type == tensor.scalar_type());
}

std::string kind_of(torch::ScalarType type, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", c10::toString(type), fmt::join(shape, ", "));
}

/// Returns what is wrong with each tensor that is missing, surplus, or of another shape or type.
std::vector<std::string> compare(const std::vector<ModelTensor>& model, Sources sources, bool all) {
  std::vector<std::string> problems;
  for (const ModelTensor& wanted : model) {
    const std::string& name = wanted.names.front();
    if (const Source* source = find(sources, wanted); source == nullptr) {
      if (all) problems.push_back(fmt::format("'{}' is missing", name));
    } else if (!fits(*source, wanted.tensor)) {
      problems.push_back(fmt::format("'{}' is {}, and {} in the model", name,
                                     kind_of(scalar_type_of(source->view->dtype), source->view->shape),
                                     kind_of(wanted.tensor.scalar_type(), wanted.tensor.sizes().vec())));
    }
    for (const std::string& known : wanted.names) sources.erase(known);
  }
  for (const auto& surplus : sources) problems.push_back(fmt::format("the model has no '{}'", surplus.first));
  return problems;
}

void fill(torch::Tensor target, const Source& source) {
  const checkpoint::TensorView& view = *source.view;
  torch::Tensor host = torch::empty(view.shape, torch::TensorOptions(scalar_type_of(view.dtype)));
  // A file of another writer may have them at any address.
  if (!view.data.empty()) std::memcpy(bytes_of(host).data(), view.data.data(), view.data.size());
  if (source.transposed) host = host.t();
  if (source.more_rows) host = host.narrow(0, 0, target.size(0));
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
  const Sources sources = sources_under(options.prefix, source, path);
  const std::vector<std::string> problems = compare(model, sources, /*all=*/options.prefix.empty());
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
    const Source* const found = find(sources, wanted);
    if (found == nullptr) continue;
    fill(wanted.tensor, *found);
    ++report.loaded;
  }
  return report;
}

LoadReport load_model(torch::nn::Module& module, const std::filesystem::path& path, const LoadOptions& options) {
  return load_tensors(model_tensors(module), path, options);
}

}  // namespace trireme
