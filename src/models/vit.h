#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

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

/// One layer of a transformer that sees all positions at once.
class EncoderBlockImpl : public torch::nn::Module {
 public:
  EncoderBlockImpl(std::int64_t width, std::int64_t heads);
  torch::Tensor forward(const torch::Tensor& x);  ///< batch × length × width, likewise

 private:
  std::int64_t heads_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear qkv_{nullptr}, project_{nullptr}, widen_{nullptr}, narrow_{nullptr};
};
TORCH_MODULE(EncoderBlock);

/// Vision transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929): patches as a sequence, and the mean
/// over them instead of a token for the class. vit-tiny has 12 layers of width 192.
class VitImpl : public torch::nn::Module {
 public:
  /// Throws InvalidArgument if the patches do not divide the image.
  explicit VitImpl(const VitOptions& options);

  torch::Tensor forward(const torch::Tensor& images);  ///< batch × channels × rows × columns -> batch × classes

 private:
  torch::nn::Conv2d patches_{nullptr};
  torch::Tensor positions_;  // 1 × patches × width
  torch::nn::ModuleList blocks_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(Vit);

}  // namespace trireme::models
