#include <algorithm>

#include "base/error.h"
#include "plan/cost/layer_builders.h"

namespace trireme::plan {
namespace {

/// An image on its way through a network.
struct Plane {
  std::uint64_t channels = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;

  double elements() const { return static_cast<double>(channels * rows * columns); }
};

/// Adds a convolution without bias that keeps rows and columns but for its stride, and the batch norm behind it, which
/// keeps its input. Returns what comes out.
Plane convolve(LayerCost& layer, const Plane& in, std::uint64_t out, std::uint64_t size, std::uint64_t stride) {
  const Plane result{out, (in.rows + stride - 1) / stride, (in.columns + stride - 1) / stride};
  layer.add_tensors({size * size * in.channels * out, out, out});
  layer.forward_flops += 2 * static_cast<double>(size * size * in.channels) * result.elements();
  layer.kept += result.elements();
  layer.deferred += in.elements() + result.elements();
  return result;
}

/// Convolutions one after the other, each but the last with a ReLU that keeps its result, beside a shortcut.
LayerCost residual_block(Plane& plane, std::uint64_t width, std::uint64_t stride, bool bottleneck) {
  LayerCost block{.input = plane.elements(), .recomputable = true};
  const std::uint64_t out = bottleneck ? 4 * width : width;
  const Plane in = plane;
  if (bottleneck) {
    plane = convolve(block, plane, width, 1, 1);
    block.kept += plane.elements();
  }
  plane = convolve(block, plane, width, 3, stride);
  block.kept += plane.elements();
  plane = convolve(block, plane, out, bottleneck ? 1 : 3, 1);
  if (in.channels != out || stride != 1) convolve(block, in, out, 1, stride);
  block.output = plane.elements();
  block.passing = 2 * block.output;  // the gradient beside the shortcut, and that of the last norm's input
  return block;
}

LayerCost linear(std::string name, std::uint64_t in, std::uint64_t out) {
  LayerCost layer{.name = std::move(name)};
  layer.add_tensors({in * out, out});
  layer.forward_flops = 2 * static_cast<double>(in * out);
  layer.input = static_cast<double>(in);
  layer.output = static_cast<double>(out);
  layer.deferred = layer.passing = layer.input + layer.output;
  return layer;
}

/// A convolution with bias, ReLU and 2×2 pooling; `out` before the pooling.
LayerCost lenet_convolution(std::string name, const Plane& in, const Plane& out) {
  LayerCost layer{.name = std::move(name)};
  layer.add_tensors({25 * in.channels * out.channels, out.channels});
  layer.forward_flops = 2.0 * 25 * static_cast<double>(in.channels) * out.elements();
  layer.input = in.elements();
  layer.kept = out.elements();
  layer.output = out.elements() / 4;
  layer.deferred = layer.passing = layer.input + layer.kept;
  return layer;
}

}  // namespace

std::vector<std::uint64_t> image_shape(const std::string& model, const ModelInput& input,
                                       std::vector<std::uint64_t> usual) {
  const std::vector<std::uint64_t> shape = input.shape.empty() ? std::move(usual) : input.shape;
  if (input.length != 0) fail<InvalidArgument>("{} takes images, not tokens: give a shape, not a length", model);
  const bool sane = std::ranges::all_of(shape, [](std::uint64_t size) { return size >= 1 && size <= 65536; });
  if (shape.size() != 3 || !sane) {
    fail<InvalidArgument>("{} takes images of channels x rows x columns, each from 1 to 65536: 3x224x224", model);
  }
  return shape;
}

ModelCost resnet_cost(std::string name, const ResidualShape& shape, const ModelInput& input) {
  const std::vector<std::uint64_t> image = image_shape(name, input, {3, shape.rows, shape.rows});
  const bool large = image[1] > 64;
  const std::uint64_t classes = input.classes == 0 ? (shape.rows > 64 ? 1000 : 10) : input.classes;
  ModelCost cost{
      .name = std::move(name), .sample = fmt::format("{}x{}x{}", image[0], image[1], image[2]), .input = input};
  cost.input.shape = image;
  cost.input.classes = classes;
  Plane plane{image[0], image[1], image[2]};
  LayerCost stem{.name = "stem", .input = plane.elements()};
  plane = convolve(stem, plane, shape.width, large ? 7 : 3, large ? 2 : 1);
  if (large) {  // max pooling keeps its input and, for each result, where it came from
    stem.kept += plane.elements();
    plane = {plane.channels, (plane.rows + 1) / 2, (plane.columns + 1) / 2};
    stem.kept_bytes = 8 * plane.elements();
  }
  stem.output = plane.elements();
  stem.passing = 2 * stem.kept;
  cost.layers.push_back(stem);
  std::uint64_t width = shape.width;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage, width *= 2) {
    for (std::uint64_t i = 0; i < shape.blocks[stage]; ++i) {
      LayerCost block = residual_block(plane, width, stage > 0 && i == 0 ? 2 : 1, shape.bottleneck);
      block.name = fmt::format("block {}.{}", stage, i);
      cost.layers.push_back(block);
    }
  }
  LayerCost head = linear("head", plane.channels, classes);
  head.input = plane.elements();
  head.kept = static_cast<double>(plane.channels);
  cost.layers.push_back(head);
  return cost;
}

ModelCost lenet_cost(std::string name, const ModelInput& input) {
  const std::vector<std::uint64_t> image = image_shape(name, input, {1, 28, 28});
  if (image[1] != 28 || image[2] != 28) fail<InvalidArgument>("{} takes images of channels x 28 x 28", name);
  const std::uint64_t classes = input.classes == 0 ? 10 : input.classes;
  ModelCost cost{.name = std::move(name), .sample = fmt::format("{}x28x28", image[0]), .input = input};
  cost.input.shape = image;
  cost.input.classes = classes;
  cost.layers = {lenet_convolution("conv1", {image[0], 28, 28}, {6, 28, 28}),
                 lenet_convolution("conv2", {6, 14, 14}, {16, 10, 10}), linear("fc1", 400, 120), linear("fc2", 120, 84),
                 linear("fc3", 84, classes)};
  return cost;
}

ModelCost mlp_cost(std::string name, const std::vector<std::uint64_t>& hidden, const ModelInput& input) {
  if (input.length != 0) fail<InvalidArgument>("{} takes numbers, not tokens: give a shape, not a length", name);
  double features = 1;
  for (const std::uint64_t size : input.shape) features *= static_cast<double>(size);
  if (features < 1 || features > 1e9)
    fail<InvalidArgument>("{}: a sample of {:.0f} numbers: from 1 to 1e9", name, features);
  const std::uint64_t count = input.shape.empty() ? 784 : static_cast<std::uint64_t>(features);
  const std::uint64_t classes = input.classes == 0 ? 10 : input.classes;
  ModelCost cost{.name = std::move(name), .sample = fmt::format("{} numbers", count), .input = input};
  if (input.shape.empty()) cost.input.shape = {count};
  cost.input.classes = classes;
  cost.any_slices = true;
  std::uint64_t in = count;
  for (const std::uint64_t width : hidden) {
    cost.layers.push_back(linear(fmt::format("fc{}", cost.layers.size() + 1), in, width));
    in = width;
  }
  cost.layers.push_back(linear(fmt::format("fc{}", cost.layers.size() + 1), in, classes));
  return cost;
}

}  // namespace trireme::plan
