#include "checkpoint/safetensors/convert.h"

#include <charconv>
#include <functional>

#include "base/error.h"
#include "checkpoint/list.h"
#include "checkpoint/writer.h"

namespace trireme::checkpoint {
namespace {

// Keys of the metadata that we write.
constexpr const char* kStepKey = "trireme.step";
constexpr const char* kMetaKey = "trireme.meta";
constexpr const char* kNamesKey = "trireme.names";      // "whole": full names, no prefix was removed
constexpr const char* kBuffersKey = "trireme.buffers";  // JSON list of names

constexpr const char* kAttempt = "import";  // the attempt of checkpoints that were not trained

constexpr std::string_view kModel = "model/";
constexpr std::string_view kBuffer = "buffer/";

std::string text_at(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

/// Parses JSON of a file that others may have changed: invalid JSON counts as missing.
nlohmann::json json_at(const Metadata& metadata, const char* key) {
  const std::string text = text_at(metadata, key);
  constexpr int kMaxMetaDepth = 60;
  bool deep = false;
  nlohmann::json value = nlohmann::json::parse(
      text,
      [&](int depth, nlohmann::json::parse_event_t, const nlohmann::json&) {
        deep = deep || depth > kMaxMetaDepth;
        return !deep;
      },
      false);
  return deep || value.is_discarded() ? nlohmann::json() : value;
}

/// Returns the names of the tensors that the file declares as buffers.
std::set<std::string> buffers_in(const Metadata& metadata) {
  std::set<std::string> buffers;
  const nlohmann::json listed = json_at(metadata, kBuffersKey);
  if (!listed.is_array()) return buffers;
  for (const nlohmann::json& name : listed) {
    if (name.is_string()) buffers.insert(name.get<std::string>());
  }
  return buffers;
}

/// Reads tensors of `checkpoint` under the names that `name_of` returns; skips those for which it returns nullopt.
template <typename NameOf>
PlainModel read_named(const Checkpoint& checkpoint, const NameOf& name_of) {
  PlainModel model;
  std::set<std::string> names;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const std::optional<std::string> name = name_of(tensor.name);
    if (!name) continue;
    if (!names.insert(*name).second) {
      fail<InvalidArgument>(
          "a parameter and a buffer are both called '{}'; export to safetensors with --all, which keeps whole names",
          *name);
    }
    if (tensor.name.starts_with(kBuffer)) model.buffers.insert(*name);
    model.owned.push_back(checkpoint.read(tensor.name));
    model.tensors.push_back({.name = *name, .dtype = tensor.dtype, .shape = tensor.shape, .data = model.owned.back()});
  }
  if (model.tensors.empty()) {
    fail<InvalidArgument>("{} holds no tensor under model/ or buffer/; see trireme ckpt show, or export with --all",
                          checkpoint.folder().string());
  }
  return model;
}

ConversionReport report_of(std::span<const TensorView> tensors) {
  ConversionReport report{.tensors = tensors.size()};
  for (const TensorView& tensor : tensors) report.bytes += tensor.data.size();
  return report;
}

/// Makes a checkpoint of one part from `tensors`, under the names that `name_of` returns.
template <typename NameOf>
ConversionReport write_named(std::span<const TensorView> tensors, const NameOf& name_of, PartInfo info,
                             const std::filesystem::path& checkpoints) {
  std::vector<Piece> pieces;
  for (const TensorView& tensor : tensors) {
    info.tensors.push_back({.name = name_of(tensor.name), .dtype = tensor.dtype, .shape = tensor.shape});
    pieces.push_back({.tensor = info.tensors.back().name, .bytes = tensor.data});
  }
  const std::filesystem::path folder = checkpoints / step_folder_name(info.step);
  if (real_file_system().size(folder / kManifestName)) {
    fail<InvalidArgument>("{} is there already; remove it first, or import into another folder", folder.string());
  }
  for (const CheckpointEntry& entry : list_checkpoints(checkpoints)) {
    if (entry.state != CheckpointEntry::State::kComplete || entry.step < info.step) continue;
    fail<InvalidArgument>(
        "{} has a checkpoint of step {} already, and a run goes on from its newest: what was imported as step {} would "
        "never be used; import into another folder",
        checkpoints.string(), entry.step, info.step);
  }
  Writer writer({.folder = checkpoints, .retention = {.keep_last = 0}});
  TRIREME_CHECK(writer.start(std::move(info), pieces));
  const WriteReport written = writer.finish(Deadline::in(24h)).value();
  if (!written.complete) fail<IoError>("{}", written.problem);
  return report_of(tensors);
}

}  // namespace

std::optional<std::string> plain_name(const std::string& name) {
  for (const std::string_view prefix : {kModel, kBuffer}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return std::nullopt;
}

PlainModel read_model(const Checkpoint& checkpoint) { return read_named(checkpoint, plain_name); }

PlainModel read_model(std::shared_ptr<const SafetensorsFile> file) {
  PlainModel model{.buffers = buffers_in(file->metadata())};
  const bool whole = text_at(file->metadata(), kNamesKey) == "whole";
  for (TensorView tensor : file->tensors()) {
    if (whole) {
      const std::optional<std::string> name = plain_name(tensor.name);
      if (!name) continue;
      if (tensor.name.starts_with(kBuffer)) model.buffers.insert(*name);
      tensor.name = *name;
    }
    model.tensors.push_back(std::move(tensor));
  }
  if (model.tensors.empty()) fail<InvalidArgument>("there is no tensor of a model in it");
  model.file = std::move(file);
  return model;
}

std::filesystem::path locate_model(const std::filesystem::path& path) {
  std::error_code unknown;
  if (!std::filesystem::exists(path, unknown)) fail<InvalidArgument>("there is no file or folder {}", path.string());
  if (!std::filesystem::is_directory(path, unknown)) {
    if (path.extension() == ".pt" || path.extension() == ".pth") {
      fail<InvalidArgument>(
          "{} is a torch archive: make a checkpoint of it with 'trireme ckpt import {} RUN' and name RUN",
          path.string(), path.string());
    }
    const SafetensorsFile opened(path);
    return path;
  }
  const Located located = locate(path);
  const auto folder = located.step_folder ? located.step_folder : latest_complete(located.folder);
  if (!folder) {
    fail<InvalidArgument>(
        "{} holds no complete checkpoint: name a .safetensors file, a run's folder, or a step in there", path.string());
  }
  return Checkpoint::open(*folder).folder();
}

PlainModel read_model(const std::filesystem::path& path) {
  const std::filesystem::path place = locate_model(path);
  std::error_code unknown;
  if (std::filesystem::is_directory(place, unknown)) return read_model(Checkpoint::open(place));
  return read_model(std::make_shared<const SafetensorsFile>(place));
}

ConversionReport write_model(const PlainModel& model, nlohmann::json meta, const std::filesystem::path& checkpoints) {
  const auto name_of = [&](const std::string& name) {
    return std::string(model.buffers.contains(name) ? kBuffer : kModel) + name;
  };
  return write_named(model.tensors, name_of, {.attempt = kAttempt, .meta = std::move(meta)}, checkpoints);
}

ConversionReport export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                    const ExportOptions& options) {
  const auto whole_name = [](const std::string& name) { return std::optional(name); };
  const PlainModel model = options.all ? read_named(checkpoint, whole_name) : read_model(checkpoint);
  write_safetensors(file, model.tensors,
                    {{kStepKey, std::to_string(checkpoint.step())},
                     {kMetaKey, checkpoint.meta().dump()},
                     {kNamesKey, options.all ? "whole" : "plain"},
                     {kBuffersKey, nlohmann::json(model.buffers).dump()}});
  return report_of(model.tensors);
}

ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints) {
  const SafetensorsFile source(file);
  const Metadata& metadata = source.metadata();
  if (text_at(metadata, kNamesKey) != "whole") {
    const auto tensors = source.tensors();
    return write_model({.tensors = {tensors.begin(), tensors.end()}, .buffers = buffers_in(metadata)},
                       {{"imported_from", file.filename().string()}}, checkpoints);
  }
  PartInfo info{.attempt = kAttempt, .meta = json_at(metadata, kMetaKey)};
  const std::string step = text_at(metadata, kStepKey);
  std::from_chars(step.data(), step.data() + step.size(), info.step);
  return write_named(source.tensors(), std::identity(), std::move(info), checkpoints);
}

}  // namespace trireme::checkpoint
