#pragma once

#include <vector>

#include "trireme/layers.h"

namespace trireme::models {

struct MlpOptions {
  std::int64_t features = 784;
  std::vector<std::int64_t> hidden = {128, 64};
  std::int64_t classes = 10;
};

/// Fully connected layers with ReLU between them: "fc1", "fc2", ... From batch × anything with `features` numbers per
/// sample to batch × classes.
LayerList mlp(const MlpOptions& options);

}  // namespace trireme::models
