#pragma once

#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace trireme::models {

/// LeNet-5 (LeCun et al. 1998): 6 and 16 filters of 5×5 with average pooling, then 120-84-classes; 61,706 parameters
/// for 1×28×28 and 10 classes. ReLU with He et al.'s initial values where the original had a
/// scaled tanh: it trains faster and reaches a better accuracy.
class LeNetImpl : public torch::nn::Module {
 public:
  /// `shape` is channels × 28 × 28. Throws InvalidArgument otherwise.
  LeNetImpl(const std::vector<std::int64_t>& shape, std::int64_t classes);

  torch::Tensor forward(const torch::Tensor& images);  ///< batch × channels × 28 × 28 -> batch × classes

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::Linear fc1_{nullptr};
  torch::nn::Linear fc2_{nullptr};
  torch::nn::Linear fc3_{nullptr};
};
TORCH_MODULE(LeNet);

}  // namespace trireme::models
