#include "trireme/checkpoint/convert.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "trireme/base/error.h"
#include "trireme/checkpoint/safetensors.h"
#include "trireme/checkpoint/writer.h"

namespace trireme::checkpoint {
namespace {

// Keys of the metadata that we write.
constexpr const char* kStepKey = "trireme.step";
constexpr const char* kMetaKey = "trireme.meta";
constexpr const char* kNamesKey = "trireme.names";      // "whole": nothing was cut from names
constexpr const char* kBuffersKey = "trireme.buffers";  // JSON list of names

constexpr std::string_view kModel = "model/";
constexpr std::string_view kBuffer = "buffer/";

/// The name in the file; nothing if the tensor is not of the model.
std::optional<std::string> plain_name(const std::string& name) {
  for (const std::string_view prefix : {kModel, kBuffer}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return std::nullopt;
}

std::string text_at(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

/// JSON of a file that others may have changed: what cannot be read counts as not there.
nlohmann::json json_at(const Metadata& metadata, const char* key) {
  const std::string text = text_at(metadata, key);
  constexpr int kMaxDepth = 60;
  bool deep = false;
  nlohmann::json value = nlohmann::json::parse(
      text,
      [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
        deep = deep || depth > kMaxDepth;
        return !deep;
      },
      false);
  return deep || value.is_discarded() ? nlohmann::json() : value;
}

/// Names in the checkpoint for those in the file.
class Names {
 public:
  explicit Names(const Metadata& metadata) : whole_(text_at(metadata, kNamesKey) == "whole") {
    const nlohmann::json buffers = json_at(metadata, kBuffersKey);
    if (!buffers.is_array()) return;
    for (const nlohmann::json& name : buffers) {
      if (name.is_string()) buffers_.insert(name.get<std::string>());
    }
  }

  bool whole() const { return whole_; }

  std::string operator()(const std::string& name) const {
    if (whole_) return name;
    return std::string(buffers_.contains(name) ? kBuffer : kModel) + name;
  }

 private:
  bool whole_;
  std::set<std::string> buffers_;
};

}  // namespace

ConversionReport export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                    const ExportOptions& options) {
  std::vector<TensorView> views;
  std::vector<std::vector<std::byte>> held;
  std::set<std::string> names;
  nlohmann::json buffers = nlohmann::json::array();
  ConversionReport report;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::optional<std::string> name = options.all ? tensor.name : plain_name(tensor.name);
    if (!name) continue;
    if (!names.insert(*name).second) {
      fail<InvalidArgument>("a parameter and a buffer are both called '{}'; export with --all, which keeps whole names",
                            *name);
    }
    if (tensor.name.starts_with(kBuffer)) buffers.push_back(*name);
    held.push_back(checkpoint.read(tensor.name));
    views.push_back({.name = *name, .dtype = tensor.dtype, .shape = tensor.shape, .data = held.back()});
    report.bytes += held.back().size();
  }
  if (views.empty()) {
    fail<InvalidArgument>("{} holds no tensor under model/ or buffer/; see trireme ckpt show, or export with --all",
                          checkpoint.folder().string());
  }
  write_safetensors(file, views,
                    {{kStepKey, std::to_string(checkpoint.step())},
                     {kMetaKey, checkpoint.meta().dump()},
                     {kNamesKey, options.all ? "whole" : "plain"},
                     {kBuffersKey, buffers.dump()}});
  report.tensors = views.size();
  return report;
}

ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints) {
  const SafetensorsFile source(file);
  const Names name_of_tensor(source.metadata());
  PartInfo info{.attempt = "import"};
  if (name_of_tensor.whole()) {
    const std::string step = text_at(source.metadata(), kStepKey);
    std::from_chars(step.data(), step.data() + step.size(), info.step);
    info.meta = json_at(source.metadata(), kMetaKey);
  } else {
    info.meta = {{"imported_from", file.filename().string()}};
  }
  std::vector<Piece> pieces;
  ConversionReport report;
  for (const TensorView& tensor : source.tensors()) {
    info.tensors.push_back({.name = name_of_tensor(tensor.name), .dtype = tensor.dtype, .shape = tensor.shape});
    pieces.push_back({.tensor = info.tensors.back().name, .bytes = tensor.data});
    report.bytes += tensor.data.size();
  }
  const std::filesystem::path folder = checkpoints / step_folder_name(info.step);
  if (real_file_system().size(folder / kManifestName)) {
    fail<InvalidArgument>("{} is there already; remove it first, or import into another folder", folder.string());
  }
  Writer writer({.folder = checkpoints, .retention = {.keep_last = 0}});
  TRIREME_CHECK(writer.start(std::move(info), pieces));
  const WriteReport written = writer.finish(Deadline::in(24h)).value();
  if (!written.complete) fail<IoError>("{}", written.problem);
  report.tensors = source.tensors().size();
  return report;
}

}  // namespace trireme::checkpoint
