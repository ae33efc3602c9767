#include "models/resnet.h"

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "models/functions.h"

namespace trireme::models {
namespace {

torch::nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  torch::nn::Conv2d made(torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
  torch::nn::init::kaiming_normal_(made->weight, 0.0, torch::kFanOut, torch::kReLU);
  return made;
}

torch::Tensor filtered(const torch::nn::Conv2d& layer, const torch::Tensor& x) {
  const std::int64_t size = layer->weight.size(2);
  return models::conv2d(x, layer->weight, {}, {.stride = layer->options.stride()->at(0), .padding = size / 2});
}

/// Brings a block's input to the shape of its result, to which it is added: "shortcut.0" and "shortcut.1".
class ShortcutImpl : public torch::nn::Module {
 public:
  ShortcutImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv_(register_module("0", conv(in, out, 1, stride))),
        norm_(register_module("1", torch::nn::BatchNorm2d(out))) {}

  torch::Tensor forward(const torch::Tensor& x) { return norm_(filtered(conv_, x)); }

 private:
  torch::nn::Conv2d conv_;
  torch::nn::BatchNorm2d norm_;
};
TORCH_MODULE(Shortcut);

/// Null if the input has that shape already.
Shortcut make_shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (in == out && stride == 1) return nullptr;
  return Shortcut(in, out, stride);
}

/// Two 3×3 convolutions beside a shortcut, as in ResNet-18 and -20.
class BasicBlockImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
    conv1_ = register_module("conv1", conv(in, width, 3, stride));
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", conv(width, width, 3, 1));
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(width));
    shortcut_ = make_shortcut(in, width, stride);
    if (shortcut_) register_module("shortcut", shortcut_);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(norm1_(filtered(conv1_, x)));
    y = norm2_(filtered(conv2_, y));
    return torch::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr};
  Shortcut shortcut_{nullptr};
};
TORCH_MODULE(BasicBlock);

/// 1×1, 3×3, 1×1 convolutions beside a shortcut, as in ResNet-50; the stride is in the middle one.
class BottleneckImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kExpansion = 4;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride) {
    conv1_ = register_module("conv1", conv(in, width, 1, 1));
    norm1_ = register_module("norm1", torch::nn::BatchNorm2d(width));
    conv2_ = register_module("conv2", conv(width, width, 3, stride));
    norm2_ = register_module("norm2", torch::nn::BatchNorm2d(width));
    conv3_ = register_module("conv3", conv(width, width * kExpansion, 1, 1));
    norm3_ = register_module("norm3", torch::nn::BatchNorm2d(width * kExpansion));
    shortcut_ = make_shortcut(in, width * kExpansion, stride);
    if (shortcut_) register_module("shortcut", shortcut_);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = torch::relu(norm1_(filtered(conv1_, x)));
    y = torch::relu(norm2_(filtered(conv2_, y)));
    y = norm3_(filtered(conv3_, y));
    return torch::relu(y + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d norm1_{nullptr}, norm2_{nullptr}, norm3_{nullptr};
  Shortcut shortcut_{nullptr};
};
TORCH_MODULE(Bottleneck);

Layer stem_layer(const ResNetOptions& options) {
  return {.name = "stem", .make = [options](torch::nn::Module& root, const LayerPlace& /*place*/) {
            const auto stem = register_at(root, "stem",
                                          options.large ? conv(options.channels, options.width, 7, 2)
                                                        : conv(options.channels, options.width, 3, 1));
            auto norm = register_at(root, "norm", torch::nn::BatchNorm2d(options.width));
            return on_x([stem, norm, large = options.large](const torch::Tensor& images) mutable {
              const torch::Tensor x = torch::relu(norm(filtered(stem, images)));
              return large ? torch::max_pool2d(x, 3, 2, 1) : x;
            });
          }};
}

template <typename Block>
Layer residual_layer(const std::string& name, std::int64_t in, std::int64_t width, std::int64_t stride) {
  return {.name = name, .make = [=](torch::nn::Module& root, const LayerPlace& /*place*/) {
            auto block = register_at(root, name, Block(in, width, stride));
            return on_x([block](const torch::Tensor& x) mutable { return block->forward(x); });
          }};
}

/// The blocks, each about as expensive as the next: twice the channels come with half the rows and columns.
template <typename Block>
void add_blocks(const ResNetOptions& options, std::vector<Layer>& layers) {
  std::int64_t in = options.width;
  std::int64_t width = options.width;
  int number = 0;
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage, width *= 2) {
    for (std::int64_t block = 0; block < options.blocks[stage]; ++block) {
      layers.push_back(
          residual_layer<Block>(fmt::format("stages.{}", number++), in, width, stage > 0 && block == 0 ? 2 : 1));
      in = width * Block::Impl::kExpansion;
    }
  }
}

Layer mean_layer(std::int64_t channels, std::int64_t classes) {
  return {.name = "head",
          .make =
              [=](torch::nn::Module& root, const LayerPlace& /*place*/) {
                const auto head = register_at(root, "head", torch::nn::Linear(channels, classes));
                return on_x([head](const torch::Tensor& x) {
                  return models::linear(x.mean({2, 3}), head->weight, head->bias);
                });
              },
          .cost = 0.1};
}

}  // namespace

LayerList resnet(const ResNetOptions& options) {
  std::vector<Layer> layers{stem_layer(options)};
  layers.back().cost = 0.5;
  if (options.bottleneck) {
    add_blocks<Bottleneck>(options, layers);
  } else {
    add_blocks<BasicBlock>(options, layers);
  }
  const std::int64_t last = (options.width << (options.blocks.size() - 1)) *
                            (options.bottleneck ? BottleneckImpl::kExpansion : BasicBlockImpl::kExpansion);
  layers.push_back(mean_layer(last, options.classes));
  return LayerList(std::move(layers));
}

}  // namespace trireme::models
