#pragma once

#include <vector>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace trireme::models {

/// Two 3×3 convolutions beside a shortcut, as in ResNet-18 and -20.
class BasicBlockImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Sequential shortcut_{nullptr};  // null: the input itself
};
TORCH_MODULE(BasicBlock);

/// 1×1, 3×3, 1×1 convolutions beside a shortcut, as in ResNet-50; the stride is in the middle one.
class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr}, norm3_{nullptr};
  torch::nn::Sequential shortcut_{nullptr};
};
TORCH_MODULE(Bottleneck);

struct ResNetOptions {
  std::vector<std::int64_t> blocks = {3, 3, 3};  ///< in each stage; a stage halves rows and columns, but the first
  std::int64_t width = 16;                       ///< channels of the first stage; each later one has twice as many
  bool bottleneck = false;
  std::int64_t channels = 3;  ///< of the images
  bool large = false;         ///< images of hundreds of pixels: a 7×7 stem of stride 2 and pooling, not a 3×3 one
  std::int64_t classes = 10;
};

/// Residual network (He et al. 2016, https://arxiv.org/abs/1512.03385): resnet20 is {3, 3, 3} blocks of width 16 for
/// CIFAR (272,474 parameters), resnet18 {2, 2, 2, 2} of width 64, resnet50 {3, 4, 6, 3} with bottlenecks.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const ResNetOptions& options);

  torch::Tensor forward(const torch::Tensor& images);  ///< batch × channels × rows × columns -> batch × classes

 private:
  bool large_;
  torch::nn::Conv2d stem_{nullptr};
  torch::nn::BatchNorm2d norm_{nullptr};
  torch::nn::Sequential stages_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace trireme::models
