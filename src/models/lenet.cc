#include "models/lenet.h"

#include <torch/nn/init.h>

#include "base/error.h"

namespace trireme::models {

LeNetImpl::LeNetImpl(const std::vector<std::int64_t>& shape, std::int64_t classes) {
  if (shape.size() != 3 || shape[1] != 28 || shape[2] != 28) {
    fail<InvalidArgument>("lenet needs images of channels x 28 x 28; use mlp for samples of another shape");
  }
  conv1_ = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(shape[0], 6, 5).padding(2)));
  conv2_ = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)));
  fc1_ = register_module("fc1", torch::nn::Linear(16 * 5 * 5, 120));
  fc2_ = register_module("fc2", torch::nn::Linear(120, 84));
  fc3_ = register_module("fc3", torch::nn::Linear(84, classes));
  for (torch::Tensor& parameter : parameters()) {
    if (parameter.dim() > 1) {
      torch::nn::init::kaiming_normal_(parameter, 0.0, torch::kFanIn, torch::kReLU);
    } else {
      torch::nn::init::zeros_(parameter);
    }
  }
}

torch::Tensor LeNetImpl::forward(const torch::Tensor& images) {
  torch::Tensor x = torch::avg_pool2d(torch::relu(conv1_(images)), 2);  // batch × 6 × 14 × 14
  x = torch::avg_pool2d(torch::relu(conv2_(x)), 2);                     // batch × 16 × 5 × 5
  x = torch::relu(fc1_(x.flatten(1)));
  x = torch::relu(fc2_(x));
  return fc3_(x);
}

}  // namespace trireme::models
