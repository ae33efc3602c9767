#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors/safetensors_header.h"

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
  std::set<std::string> buffers = {};              ///< the names of those that are not parameters
  std::vector<std::vector<std::byte>> owned = {};  ///< the memory behind `tensors`, unless someone else owns it
};

/// Reads the model in `checkpoint` into memory. Throws InvalidArgument if there is none or if a parameter and a buffer
/// have the same name, Corrupt as Checkpoint::read does, IoError.
PlainModel read_model(const Checkpoint& checkpoint);

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
/// step exists already, Corrupt, IoError.
ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints);

}  // namespace trireme::checkpoint
