#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors/safetensors_header.h"

namespace trireme::checkpoint {

// To and from what other programs read and write: the model without the prefixes of a checkpoint, and safetensors
// files.

struct ConversionReport {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Parameters and buffers as other programs name them: without `model/` and `buffer/`.
struct PlainModel {
  std::vector<TensorView> tensors = {};
  std::set<std::string> buffers = {};              ///< the names of those that are no parameters
  std::vector<std::vector<std::byte>> owned = {};  ///< what `tensors` look at, unless that is somebody else's
};

/// The model in `checkpoint`, in memory. Throws InvalidArgument if there is none or if a parameter and a buffer have
/// the same name, Corrupt as Checkpoint::read does, IoError.
PlainModel read_model(const Checkpoint& checkpoint);

/// Makes a checkpoint of one part of it, at step 0 in `checkpoints`: training begins anew from these values. Throws
/// InvalidArgument if that step is there already, IoError.
ConversionReport write_model(const PlainModel& model, nlohmann::json meta, const std::filesystem::path& checkpoints);

struct ExportOptions {
  bool all = false;  ///< every tensor under its whole name; else the model as read_model gives it
};

/// Writes tensors of `checkpoint` to a safetensors file; its metadata tells the step, the meta, and which tensors are
/// buffers. Holds them in memory meanwhile. Throws as read_model.
ConversionReport export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                    const ExportOptions& options = {});

/// Makes a checkpoint of one part of a safetensors file, at `<checkpoints>/step-…`: names get `model/` before them,
/// or `buffer/` where the file's metadata says so, or stay as they are if all of them were exported. The step and the
/// meta are the file's if we exported it with everything; else step 0, so without the optimizer's state, training
/// begins anew from these values. Throws InvalidArgument if that step is there already, Corrupt, IoError.
ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints);

}  // namespace trireme::checkpoint
