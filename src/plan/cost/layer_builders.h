#pragma once

#include "plan/cost/model_cost.h"

namespace trireme::plan {

// How the models of src/models/ are built, in numbers. For `model_cost`.

struct TransformerShape {
  std::uint64_t layers = 12;
  std::uint64_t heads = 12;
  std::uint64_t width = 768;
  bool dropout = false;
};

/// One layer of a transformer on `length` tokens: attention and a layer of four times the width.
LayerCost transformer_block(const TransformerShape& shape, std::uint64_t length, bool fused_attention);

ModelCost gpt_cost(std::string name, const TransformerShape& shape, const ModelInput& input);
/// `patch`: rows and columns of one; 0 = as usual for the size of the images.
ModelCost vit_cost(std::string name, const TransformerShape& shape, std::uint64_t patch, const ModelInput& input);
ModelCost lstm_cost(std::string name, std::uint64_t layers, std::uint64_t width, const ModelInput& input);

struct ResidualShape {
  std::vector<std::uint64_t> blocks;
  std::uint64_t width = 16;
  bool bottleneck = false;
  std::uint64_t rows = 32;  ///< of the images that are usual for it
};

ModelCost resnet_cost(std::string name, const ResidualShape& shape, const ModelInput& input);
ModelCost lenet_cost(std::string name, const ModelInput& input);
ModelCost mlp_cost(std::string name, const std::vector<std::uint64_t>& hidden, const ModelInput& input);

/// Returns channels, rows and columns. Throws InvalidArgument unless the shape has three sizes, each from 1 to 65536.
std::vector<std::uint64_t> image_shape(const std::string& model, const ModelInput& input,
                                       std::vector<std::uint64_t> usual);

}  // namespace trireme::plan
