#include "models/lenet.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "base/error.h"
#include "models/functions.h"

namespace trireme::models {
namespace {

template <typename Module>
Module with_he_values(Module module) {
  torch::nn::init::kaiming_normal_(module->weight, 0.0, torch::kFanIn, torch::kReLU);
  torch::nn::init::zeros_(module->bias);
  return module;
}

/// A convolution of 5×5, ReLU, and the mean of each 2×2.
Layer filters(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t padding) {
  return {.name = name,
          .make =
              [=](torch::nn::Module& root, const LayerPlace& /*place*/) {
                const auto conv = register_at(
                    root, name,
                    with_he_values(torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 5).padding(padding))));
                return on_x([conv, padding](const torch::Tensor& x) {
                  return torch::avg_pool2d(
                      torch::relu(models::conv2d(x, conv->weight, conv->bias, {.padding = padding})), 2);
                });
              },
          .cost = 4};
}

Layer connected(const std::string& name, std::int64_t in, std::int64_t out, bool last) {
  return {.name = name, .make = [=](torch::nn::Module& root, const LayerPlace& /*place*/) {
            const auto fc = register_at(root, name, with_he_values(torch::nn::Linear(in, out)));
            return on_x([fc, last](const torch::Tensor& x) {
              const torch::Tensor y = models::linear(x.flatten(1), fc->weight, fc->bias);
              return last ? y : torch::relu(y);
            });
          }};
}

}  // namespace

LayerList lenet(const std::vector<std::int64_t>& shape, std::int64_t classes) {
  if (shape.size() != 3 || shape[1] != 28 || shape[2] != 28) {
    fail<InvalidArgument>("lenet needs images of channels x 28 x 28; use mlp for samples of another shape");
  }
  return LayerList({filters("conv1", shape[0], 6, 2),  // -> batch × 6 × 14 × 14
                    filters("conv2", 6, 16, 0),        // -> batch × 16 × 5 × 5
                    connected("fc1", 16 * 5 * 5, 120, false), connected("fc2", 120, 84, false),
                    connected("fc3", 84, classes, true)});
}

}  // namespace trireme::models
