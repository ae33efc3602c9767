#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors/safetensors.h"

namespace trireme::checkpoint {

// Conversion to and from what other programs read and write: the model without the prefixes of a checkpoint, and
// safetensors files.

struct ConversionReport {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Parameters and buffers as other programs name them: without `model/` and `buffer/`.
struct PlainModel {
  std::vector<TensorView> tensors = {};
  std::set<std::string> buffers = {};                ///< the names of those that are not parameters
  std::vector<std::vector<std::byte>> owned = {};    ///< the memory behind `tensors`, unless someone else owns it
  std::shared_ptr<const SafetensorsFile> file = {};  ///< it owns that memory, if not null
};

/// Returns how other programs name a tensor of a checkpoint; nullopt if it is not part of the model.
std::optional<std::string> plain_name(const std::string& name);

/// Reads the model in `checkpoint` into memory. Throws InvalidArgument if there is none or if a parameter and a buffer
/// have the same name, Corrupt as Checkpoint::read does, IoError.
PlainModel read_model(const Checkpoint& checkpoint);

/// Returns the model in a safetensors file: all of its tensors or, where it was exported with `all`, the parameters and
/// buffers among them. Does not read them. Throws InvalidArgument if there is none.
PlainModel read_model(std::shared_ptr<const SafetensorsFile> file);

/// Returns where the model is that `path` means: the safetensors file itself, or the folder of a step: of a run's
/// folder or its checkpoints folder, that of the newest complete checkpoint. Checks that it can be read, except the
/// tensors' own bytes. Throws InvalidArgument that says what may be named, Corrupt, IoError.
std::filesystem::path locate_model(const std::filesystem::path& path);

/// Reads the model that `path` means. Throws as locate_model and read_model.
PlainModel read_model(const std::filesystem::path& path);

/// Writes the model as a checkpoint of one part, at step 0 in `checkpoints`: training starts from these values. Throws
/// InvalidArgument if that step exists already, IoError.
ConversionReport write_model(const PlainModel& model, nlohmann::json meta, const std::filesystem::path& checkpoints);

struct ExportOptions {
  bool all = false;  ///< every tensor under its full name; else the model as read_model returns it
};

/// Writes tensors of `checkpoint` to a safetensors file; its metadata holds the step, the meta, and which tensors are
/// buffers. Keeps them in memory meanwhile. Throws like read_model.
ConversionReport export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                    const ExportOptions& options = {});

/// Makes a checkpoint of one part from a safetensors file, at `<checkpoints>/step-…`. A file exported with `all` keeps
/// its names, step and meta. Otherwise names get the prefix `model/`, or `buffer/` where the file's metadata says so,
/// and the step is 0: there is no optimizer state, so training starts from these values. Throws InvalidArgument if that
/// step or a later one exists already, Corrupt, IoError.
ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints);

}  // namespace trireme::checkpoint
