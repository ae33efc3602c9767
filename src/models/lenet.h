#pragma once

#include <vector>

#include "trireme/layers.h"

namespace trireme::models {

/// LeNet-5 (LeCun et al. 1998): 6 and 16 filters of 5×5 with average pooling, then 120-84-classes; 61,706 parameters
/// for 1×28×28 and 10 classes. ReLU with He et al.'s initial values where the original had a scaled tanh: it trains
/// faster and reaches a better accuracy. From images of batch × channels × 28 × 28 to batch × classes. Layers: "conv1",
/// "conv2", "fc1", "fc2", "fc3". `shape` is channels × 28 × 28; throws InvalidArgument otherwise.
LayerList lenet(const std::vector<std::int64_t>& shape, std::int64_t classes);

}  // namespace trireme::models
