#include "models/vit.h"

#include <torch/nn/init.h>

#include "base/error.h"
#include "models/attention.h"

namespace trireme::models {

EncoderBlockImpl::EncoderBlockImpl(std::int64_t width, std::int64_t heads) : heads_(heads) {
  norm1_ = register_module("norm1", layer_norm(width));
  qkv_ = register_module("qkv", torch::nn::Linear(width, 3 * width));
  project_ = register_module("project", torch::nn::Linear(width, width));
  norm2_ = register_module("norm2", layer_norm(width));
  widen_ = register_module("widen", torch::nn::Linear(width, 4 * width));
  narrow_ = register_module("narrow", torch::nn::Linear(4 * width, width));
}

torch::Tensor EncoderBlockImpl::forward(const torch::Tensor& x) {
  const std::int64_t batch = x.size(0);
  const std::int64_t length = x.size(1);
  const std::int64_t width = x.size(2);
  const auto heads = [&](const torch::Tensor& part) {
    return part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
  };
  const auto qkv = qkv_(norm1_(x)).chunk(3, /*dim=*/2);
  const torch::Tensor mixed = attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), /*causal=*/false);
  const torch::Tensor attended = x + project_(mixed.transpose(1, 2).reshape({batch, length, width}));
  return attended + narrow_(tanh_gelu(widen_(norm2_(attended))));
}

VitImpl::VitImpl(const VitOptions& options) {
  if (options.rows % options.patch != 0 || options.columns % options.patch != 0) {
    fail<InvalidArgument>("images of {}x{} cannot be cut into patches of {}x{}", options.rows, options.columns,
                          options.patch, options.patch);
  }
  const std::int64_t count = (options.rows / options.patch) * (options.columns / options.patch);
  patches_ = register_module(
      "patches", torch::nn::Conv2d(
                     torch::nn::Conv2dOptions(options.channels, options.width, options.patch).stride(options.patch)));
  positions_ = register_parameter("positions", torch::randn({1, count, options.width}) * 0.02);
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) blocks_->push_back(EncoderBlock(options.width, options.heads));
  norm_ = register_module("norm", layer_norm(options.width));
  head_ = register_module("head", torch::nn::Linear(options.width, options.classes));
}

torch::Tensor VitImpl::forward(const torch::Tensor& images) {
  torch::Tensor x = patches_(images).flatten(2).transpose(1, 2) + positions_;  // batch × patches × width
  for (const auto& block : *blocks_) x = block->as<EncoderBlock>()->forward(x);
  return head_(norm_(x).mean(1));
}

}  // namespace trireme::models
