#include "models/resnet.h"

#include <torch/nn/init.h>

namespace trireme::models {
namespace {

torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

/// What the block's result is added to must have its shape; null if the input has it already.
torch::nn::Sequential make_shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return nullptr;
  return torch::nn::Sequential(conv(in, out, 1, stride), torch::nn::BatchNorm2d(out));
}

template <typename Block>
torch::nn::Sequential make_stages(const ResNetOptions& options) {
  torch::nn::Sequential stages;
  std::int64_t in = options.width;
  std::int64_t width = options.width;
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage, width *= 2) {
    for (std::int64_t block = 0; block < options.blocks[stage]; ++block) {
      stages->push_back(Block(in, width, stage > 0 && block == 0 ? 2 : 1));
      in = width * Block::Impl::kExpansion;
    }
  }
  return stages;
}

}  // namespace

BasicBlockImpl::BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", conv(in, width, 3, stride));
  norm1_ = register_module("norm1", torch::nn::BatchNorm2d(width));
  conv2_ = register_module("conv2", conv(width, width, 3, 1));
  norm2_ = register_module("norm2", torch::nn::BatchNorm2d(width));
  shortcut_ = make_shortcut(in, width, stride);
  if (shortcut_) register_module("shortcut", shortcut_);
}

torch::Tensor BasicBlockImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = torch::relu(norm1_(conv1_(x)));
  y = norm2_(conv2_(y));
  return torch::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
}

BottleneckImpl::BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
  conv1_ = register_module("conv1", conv(in, width, 1, 1));
  norm1_ = register_module("norm1", torch::nn::BatchNorm2d(width));
  conv2_ = register_module("conv2", conv(width, width, 3, stride));
  norm2_ = register_module("norm2", torch::nn::BatchNorm2d(width));
  conv3_ = register_module("conv3", conv(width, width * kExpansion, 1, 1));
  norm3_ = register_module("norm3", torch::nn::BatchNorm2d(width * kExpansion));
  shortcut_ = make_shortcut(in, width * kExpansion, stride);
  if (shortcut_) register_module("shortcut", shortcut_);
}

torch::Tensor BottleneckImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = torch::relu(norm1_(conv1_(x)));
  y = torch::relu(norm2_(conv2_(y)));
  y = norm3_(conv3_(y));
  return torch::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
}

ResNetImpl::ResNetImpl(const ResNetOptions& options) : large_(options.large) {
  stem_ = register_module(
      "stem", large_ ? conv(options.channels, options.width, 7, 2) : conv(options.channels, options.width, 3, 1));
  norm_ = register_module("norm", torch::nn::BatchNorm2d(options.width));
  stages_ = register_module("stages",
                            options.bottleneck ? make_stages<Bottleneck>(options) : make_stages<BasicBlock>(options));
  const std::int64_t last = (options.width << (options.blocks.size() - 1)) *
                            (options.bottleneck ? BottleneckImpl::kExpansion : BasicBlockImpl::kExpansion);
  head_ = register_module("head", torch::nn::Linear(last, options.classes));
  for (torch::Tensor& parameter : parameters()) {
    if (parameter.dim() == 4) torch::nn::init::kaiming_normal_(parameter, 0.0, torch::kFanOut, torch::kReLU);
  }
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::relu(norm_(stem_(images)));
  if (large_) x = torch::max_pool2d(x, 3, 2, 1);
  x = stages_->forward(x);
  return head_(x.mean({2, 3}));
}

}  // namespace trireme::models
