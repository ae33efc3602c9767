#include "models/vit.h"

#include <fmt/format.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "base/error.h"
#include "models/attention.h"
#include "models/functions.h"
#include "models/parallel_block.h"

namespace trireme::models {
namespace {

/// One layer of a transformer that sees all positions at once.
class EncoderBlockImpl : public torch::nn::Module {
 public:
  EncoderBlockImpl(std::int64_t width, std::int64_t heads) : heads_(heads) {
    norm1_ = register_module("norm1", layer_norm(width));
    qkv_ = register_module("qkv", torch::nn::Linear(width, 3 * width));
    project_ = register_module("project", torch::nn::Linear(width, width));
    norm2_ = register_module("norm2", layer_norm(width));
    widen_ = register_module("widen", torch::nn::Linear(width, 4 * width));
    narrow_ = register_module("narrow", torch::nn::Linear(4 * width, width));
  }

  torch::Tensor forward(const torch::Tensor& x) {  // batch × length × width, likewise
    const std::int64_t batch = x.size(0);
    const std::int64_t length = x.size(1);
    const std::int64_t width = x.size(2);
    const auto heads = [&](const torch::Tensor& part) {
      return part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
    };
    const auto qkv = product(qkv_, norm1_(x)).chunk(3, /*dim=*/2);
    const torch::Tensor mixed = attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), /*causal=*/false);
    const torch::Tensor attended = x + product(project_, mixed.transpose(1, 2).reshape({batch, length, width}));
    return attended + feed_forward(norm2_(attended), widen_, narrow_);
  }

 private:
  static torch::Tensor product(const torch::nn::Linear& layer, const torch::Tensor& x) {
    return models::linear(x, layer->weight, layer->bias);
  }

  std::int64_t heads_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear qkv_{nullptr}, project_{nullptr}, widen_{nullptr}, narrow_{nullptr};
};
TORCH_MODULE(EncoderBlock);

/// Every rank computes its channels of all patches, and passes on all channels of its patches.
LayerRun divided_patches(torch::nn::Module& root, const LayerPlace& place, const torch::nn::Conv2d& whole,
                         const torch::Tensor& positions) {
  parallel::TensorGroup& group = *place.tensor;
  auto patches = register_at(root, "patches", parallel::ColumnParallelConv2d(group, whole));
  note_slices(place, "patches", *patches);
  root.register_parameter("positions", positions);
  return on_x([&group, patches, positions](const torch::Tensor& images) mutable {
    const auto lanes = patches(copy_to_lanes(group, images, "patches"));
    const torch::Tensor cut = join_lanes(group, lanes, 1, positions.size(2), "patches");
    return take_part(group, cut.flatten(2).transpose(1, 2) + positions, 1, "positions");
  });
}

Layer patches_layer(const VitOptions& options) {
  return {.name = "patches",
          .make = [options](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            const std::int64_t count = (options.rows / options.patch) * (options.columns / options.patch);
            const torch::nn::Conv2d patches(
                torch::nn::Conv2dOptions(options.channels, options.width, options.patch).stride(options.patch));
            torch::Tensor positions = torch::randn({1, count, options.width}) * 0.02;
            if (is_divided(place)) return divided_patches(root, place, patches, positions.requires_grad_());
            register_at(root, "patches", patches);
            positions = root.register_parameter("positions", positions);
            return on_x([patches, positions, patch = options.patch](const torch::Tensor& images) {
              const torch::Tensor cut = models::conv2d(images, patches->weight, patches->bias, {.stride = patch});
              return cut.flatten(2).transpose(1, 2) + positions;  // batch × patches × width
            });
          },
          .divisible = true};
}

Layer encoder_layer(const VitOptions& options, std::int64_t i) {
  const std::string name = fmt::format("blocks.{}", i);
  return {.name = name,
          .make = [options, name](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            if (is_divided(place)) {
              const BlockShape shape{.norm_1 = "norm1",
                                     .attention = "qkv",
                                     .projection = "project",
                                     .norm_2 = "norm2",
                                     .widen = "widen",
                                     .narrow = "narrow",
                                     .heads = options.heads};
              return divided_block(root, place, name, *EncoderBlock(options.width, options.heads), shape);
            }
            auto block = register_at(root, name, EncoderBlock(options.width, options.heads));
            return on_x([block](const torch::Tensor& x) mutable { return block->forward(x); });
          },
          .divisible = true};
}

/// The last layer is small: every rank computes all of it.
LayerRun divided_classes(const VitOptions& options, torch::nn::Module& root, parallel::TensorGroup& group) {
  auto norm = register_at(root, "norm", parallel::SequenceLayerNorm(group, layer_norm(options.width), "norm"));
  const auto head = register_at(root, "head", torch::nn::Linear(options.width, options.classes));
  return on_x([&group, norm, head](const torch::Tensor& part) mutable {
    const std::int64_t count = group.whole_length(part.size(1), "head.length");
    const torch::Tensor all = gather_parts(group, norm(part, 1, count), 1, count, "head");
    return models::linear(all.mean(1), head->weight, head->bias);
  });
}

Layer classes_layer(const VitOptions& options) {
  return {.name = "head",
          .make = [options](torch::nn::Module& root, const LayerPlace& place) -> LayerRun {
            if (is_divided(place)) return divided_classes(options, root, *place.tensor);
            auto norm = register_at(root, "norm", layer_norm(options.width));
            const auto head = register_at(root, "head", torch::nn::Linear(options.width, options.classes));
            return on_x([norm, head](const torch::Tensor& x) mutable {
              return models::linear(norm(x).mean(1), head->weight, head->bias);
            });
          },
          .divisible = true};
}

}  // namespace

LayerList vit(const VitOptions& options) {
  if (options.rows % options.patch != 0 || options.columns % options.patch != 0) {
    fail<InvalidArgument>("images of {}x{} cannot be cut into patches of {}x{}", options.rows, options.columns,
                          options.patch, options.patch);
  }
  std::vector<Layer> layers{patches_layer(options)};
  layers.back().cost = 0.2;
  for (std::int64_t i = 0; i < options.layers; ++i) layers.push_back(encoder_layer(options, i));
  layers.push_back(classes_layer(options));
  layers.back().cost = 0.1;
  return LayerList(std::move(layers));
}

}  // namespace trireme::models
