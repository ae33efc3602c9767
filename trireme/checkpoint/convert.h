#pragma once

#include <filesystem>

#include "trireme/checkpoint/checkpoint.h"

namespace trireme::checkpoint {

// To and from safetensors files, which other programs read and write.

struct ExportOptions {
  bool all = false;  ///< every tensor under its whole name; else the model's (`model/`, `buffer/`) without the prefix
};

struct ConversionReport {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Writes tensors of `checkpoint` to a safetensors file; its metadata tells the step, the meta, and which tensors are
/// buffers. Holds them in memory meanwhile. Throws InvalidArgument if none is to be written or if two come to the same
/// name, Corrupt as Checkpoint::read does, IoError.
ConversionReport export_safetensors(const Checkpoint& checkpoint, const std::filesystem::path& file,
                                    const ExportOptions& options = {});

/// Makes a checkpoint of one part of a safetensors file, at `<checkpoints>/step-…`: names get `model/` before them,
/// or `buffer/` where the file's metadata says so, or stay as they are if all of them were exported. The step and the
/// meta are the file's if we exported it with everything; else step 0, so without the optimizer's state, training
/// begins anew from these values. Throws InvalidArgument if that step is there already, Corrupt, IoError.
ConversionReport import_safetensors(const std::filesystem::path& file, const std::filesystem::path& checkpoints);

}  // namespace trireme::checkpoint
