#pragma once

#include <vector>

#include <torch/nn/modules/linear.h>

namespace trireme::models {

struct MlpOptions {
  std::int64_t features = 784;
  std::vector<std::int64_t> hidden = {128, 64};
  std::int64_t classes = 10;
};

/// Fully connected layers with ReLU between them. Input: batch × anything with `features` numbers per sample.
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(const MlpOptions& options);

  torch::Tensor forward(const torch::Tensor& features);  ///< -> batch × classes

 private:
  std::vector<torch::nn::Linear> layers_;
};
TORCH_MODULE(Mlp);

}  // namespace trireme::models
