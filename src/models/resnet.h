#pragma once

#include <vector>

#include "trireme/layers.h"

namespace trireme::models {

struct ResNetOptions {
  std::vector<std::int64_t> blocks = {3, 3, 3};  ///< in each stage; a stage halves rows and columns, but the first
  std::int64_t width = 16;                       ///< channels of the first stage; each later one has twice as many
  bool bottleneck = false;
  std::int64_t channels = 3;  ///< of the images
  bool large = false;         ///< images of hundreds of pixels: a 7×7 stem of stride 2 and pooling, not a 3×3 one
  std::int64_t classes = 10;
};

/// Residual network (He et al. 2016, https://arxiv.org/abs/1512.03385): resnet20 is {3, 3, 3} blocks of width 16 for
/// CIFAR (272,474 parameters), resnet18 {2, 2, 2, 2} of width 64, resnet50 {3, 4, 6, 3} with bottlenecks. From images
/// of batch × channels × rows × columns to batch × classes. Layers: "stem", "stages.0", ..., "head".
LayerList resnet(const ResNetOptions& options);

}  // namespace trireme::models
