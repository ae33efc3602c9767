#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>
#include <torch/nn/module.h>

#include "checkpoint/safetensors/convert.h"

namespace trireme {

// Checkpoints to and from files of torch::save.

/// What the tensors of a checkpoint do not tell of `module`, but torch::load asks for: modules without tensors, and
/// names of tensors that are saved under another (tied weights). Belongs in a checkpoint's meta as "module"; empty if
/// there is nothing to tell.
nlohmann::json describe_module(const torch::nn::Module& module);

/// Writes the model in `checkpoint` so that `torch::load(module, file)` reads it; without the optimizer's state. Throws
/// as checkpoint::read_model and write_torch_archive.
checkpoint::ConversionReport export_torch_archive(const checkpoint::Checkpoint& checkpoint,
                                                  const std::filesystem::path& file);

/// Makes a checkpoint of what `torch::save(module, file)` wrote, at step 0. Throws as read_torch_archive and
/// checkpoint::write_model.
checkpoint::ConversionReport import_torch_archive(const std::filesystem::path& file,
                                                  const std::filesystem::path& checkpoints);

}  // namespace trireme
