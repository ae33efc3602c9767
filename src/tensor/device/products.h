#pragma once

#include <torch/types.h>

namespace trireme::device {

// Matrix products of bf16 or fp16, as cuBLASLt makes them: with what comes before and after them in the same pass, and
// with the algorithm that was the fastest for that shape here, which is tried when a shape comes first. Where LibTorch
// is to be deterministic, with cuBLASLt's own first choice, which is always the same. On the current stream.
//
// All matrices are rows × columns, contiguous.

/// Whether these can be had for matrices such as `input`, with `outputs` columns instead of its own.
bool can_multiply(const torch::Tensor& input, std::int64_t outputs);

/// input × weightᵀ + bias; `bias` may be undefined. All of one type, and so is the result.
torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias);

/// The same and GELU (in its form with tanh) of it.
struct Activated {
  torch::Tensor before;
  torch::Tensor after;
};
Activated linear_gelu(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias);

/// gradient × weight: what `linear` passes on to its input.
torch::Tensor input_gradient(const torch::Tensor& gradient, const torch::Tensor& weight);

/// gradientᵀ × input, in float32: the gradient of `linear`'s weight.
torch::Tensor weight_gradient(const torch::Tensor& gradient, const torch::Tensor& input);

}  // namespace trireme::device
