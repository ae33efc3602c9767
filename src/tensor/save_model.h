#pragma once

#include <filesystem>

#include <torch/torch.h>

#include "checkpoint/safetensors/safetensors.h"

namespace trireme {

/// Writes all parameters and buffers of `module` as safetensors; a reader sees the old file or the new one. Throws
/// InvalidArgument for types that such files do not know, IoError.
void save_model(const std::filesystem::path& path, const torch::nn::Module& module,
                const checkpoint::Metadata& metadata = {});

}  // namespace trireme
