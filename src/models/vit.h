#pragma once

#include <cstdint>

#include "trireme/layers.h"

namespace trireme::models {

struct VitOptions {
  std::int64_t channels = 3;
  std::int64_t rows = 32;
  std::int64_t columns = 32;
  std::int64_t patch = 4;  ///< rows and columns of the squares an image is cut into; divides both
  std::int64_t layers = 12;
  std::int64_t heads = 3;
  std::int64_t width = 192;
  std::int64_t classes = 10;
};

/// Vision transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929): patches as a sequence, and the mean
/// over them instead of a token for the class. vit-tiny has 12 layers of width 192. From images of batch × channels ×
/// rows × columns to batch × classes. Layers: "patches", "blocks.0", ..., "head". Throws InvalidArgument if the patches
/// do not divide the image.
LayerList vit(const VitOptions& options);

}  // namespace trireme::models
