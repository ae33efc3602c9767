#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "trireme/checkpoint.h"

namespace trireme {

/// A parameter or buffer of a model.
struct ModelTensor {
  std::vector<std::string> names = {};  ///< all that the model has for it: tied weights have several
  torch::Tensor tensor = {};
  bool buffer = false;
};

/// Returns all parameters and buffers of `module`, each once, not copied.
std::vector<ModelTensor> model_tensors(const torch::nn::Module& module);

/// Fills `model` from a file or checkpoint; see load_model, which does so for a module.
LoadReport load_tensors(const std::vector<ModelTensor>& model, const std::filesystem::path& path,
                        const LoadOptions& options);

}  // namespace trireme
