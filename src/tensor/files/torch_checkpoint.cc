#include "tensor/files/torch_checkpoint.h"

#include <map>

#include "base/error.h"
#include "tensor/files/torch_archive.h"
#include "tensor/torch_dtype.h"

namespace trireme {
namespace {

// Fields of the meta.
constexpr const char* kModule = "module";
constexpr const char* kEmpty = "empty";  // list of names
constexpr const char* kTied = "tied";    // object: name -> the name that is saved

/// Adds what describe_module told about the module, as far as it fits: meta may have been written by others.
void complete(TorchArchive& archive, const nlohmann::json& meta) {
  if (!meta.is_object() || !meta.contains(kModule) || !meta.at(kModule).is_object()) return;
  const nlohmann::json& module = meta.at(kModule);
  if (module.contains(kEmpty) && module.at(kEmpty).is_array()) {
    for (const nlohmann::json& name : module.at(kEmpty)) {
      if (name.is_string()) archive.empty_modules.push_back(name.get<std::string>());
    }
  }
  if (!module.contains(kTied) || !module.at(kTied).is_object()) return;
  std::map<std::string, TorchArchive::Entry> by_name;
  for (const TorchArchive::Entry& entry : archive.tensors) by_name.emplace(entry.name, entry);
  for (const auto& [name, saved] : module.at(kTied).items()) {
    const auto found = saved.is_string() ? by_name.find(saved.get<std::string>()) : by_name.end();
    if (found == by_name.end() || by_name.contains(name)) continue;
    archive.tensors.push_back({.name = name, .tensor = found->second.tensor, .buffer = found->second.buffer});
  }
}

}  // namespace

nlohmann::json describe_module(const torch::nn::Module& module) {
  nlohmann::json description = nlohmann::json::object();
  for (const auto& item : module.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const torch::nn::Module& inner = *item.value();
    if (inner.parameters(false).empty() && inner.buffers(false).empty() && inner.children().empty()) {
      description[kEmpty].push_back(item.key());
    }
  }
  std::map<const at::TensorImpl*, std::string> first_names;
  const auto note = [&](const std::string& name, const torch::Tensor& tensor) {
    const auto [first, added] = first_names.emplace(tensor.unsafeGetTensorImpl(), name);
    if (!added) description[kTied][name] = first->second;
  };
  for (const auto& item : module.named_parameters()) note(item.key(), item.value());
  for (const auto& item : module.named_buffers()) note(item.key(), item.value());
  return description;
}

checkpoint::ConversionReport export_torch_archive(const checkpoint::Checkpoint& checkpoint,
                                                  const std::filesystem::path& file) {
  const checkpoint::PlainModel model = checkpoint::read_model(checkpoint);
  TorchArchive archive;
  checkpoint::ConversionReport report;
  for (const checkpoint::TensorView& view : model.tensors) {
    // from_blob takes what it never writes to as not const.
    torch::Tensor tensor = torch::from_blob(const_cast<std::byte*>(view.data.data()), view.shape,
                                            torch::TensorOptions(scalar_type_of(view.dtype)));
    archive.tensors.push_back({.name = view.name, .tensor = tensor, .buffer = model.buffers.contains(view.name)});
    report.bytes += view.data.size();
  }
  report.tensors = model.tensors.size();
  complete(archive, checkpoint.meta());
  write_torch_archive(file, archive);
  return report;
}

checkpoint::ConversionReport import_torch_archive(const std::filesystem::path& file,
                                                  const std::filesystem::path& checkpoints) {
  const TorchArchive archive = read_torch_archive(file);
  if (archive.tensors.empty()) fail<InvalidArgument>("{} holds no tensors", file.string());
  checkpoint::PlainModel model;
  for (const TorchArchive::Entry& entry : archive.tensors) {
    model.tensors.push_back({.name = entry.name,
                             .dtype = *dtype_of(entry.tensor.scalar_type()),
                             .shape = entry.tensor.sizes().vec(),
                             .data = {static_cast<const std::byte*>(entry.tensor.data_ptr()), entry.tensor.nbytes()}});
    if (entry.buffer) model.buffers.insert(entry.name);
  }
  nlohmann::json meta{{"imported_from", file.filename().string()}};
  if (!archive.empty_modules.empty()) meta[kModule] = {{kEmpty, archive.empty_modules}};
  return checkpoint::write_model(model, std::move(meta), checkpoints);
}

}  // namespace trireme
