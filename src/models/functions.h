#pragma once

#include <cstdint>

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace trireme::models {

// What layers with weights compute, as functions of tensors. LibTorch's kernels; their backward computes the gradient
// of the input and that of the weights apart, so that the second can be left for later (weight_gradients.h). Under
// autocast they compute in its precision, as LibTorch's own do.

/// x × weightᵀ + bias over the last dimension of `x`; without a bias where it is undefined.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias = {});

/// `second` of GELU, by tanh, of `first` of x: on a GPU, in lower precision, the GELU is a part of the products.
torch::Tensor feed_forward(const torch::Tensor& x, const torch::nn::Linear& first, const torch::nn::Linear& second);

/// `linear` for any number of outputs: on a GPU, in lower precision, the rows of the result may have gaps between them.
torch::Tensor wide_linear(const torch::Tensor& x, const torch::Tensor& weight);

struct ConvolutionShape {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
};

/// batch × channels × rows × columns, likewise.
torch::Tensor conv2d(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                     ConvolutionShape shape = {});

/// The rows of `weight` that `indices`, of any shape, name.
torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& indices);

}  // namespace trireme::models
