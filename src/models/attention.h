#pragma once

#include <cstdint>

#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

namespace trireme::models {

/// Mixes values by the softmax of queries times keys, each batch × heads × length × width of a head. `causal`: a
/// position sees itself and those before it. Uses LibTorch's fused kernel (flash attention on GPUs) where it has one.
torch::Tensor attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value, bool causal,
                        double dropout = 0);

inline torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                                      double dropout = 0) {
  return attention(query, key, value, /*causal=*/true, dropout);
}

/// GELU in the form of GPT-2, by tanh.
torch::Tensor tanh_gelu(const torch::Tensor& x);

/// Normalises over the last dimension, of this width, and learns its scale and offset.
torch::nn::LayerNorm layer_norm(std::int64_t width);

}  // namespace trireme::models
