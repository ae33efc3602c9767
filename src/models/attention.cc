#include "models/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include <torch/version.h>

#include "models/lane_seed.h"

namespace trireme::models {

torch::Tensor attention(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value, bool causal,
                        double dropout) {
#if TORCH_VERSION_MAJOR >= 2
  // On CPUs dropout takes the same path as below in LibTorch too, but with random numbers that are not the layer's.
  if (dropout == 0 || !query.is_cpu()) return at::scaled_dot_product_attention(query, key, value, {}, dropout, causal);
#endif
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.size(-1)));
  torch::Tensor scores = torch::matmul(query, key.transpose(-2, -1)) * scale;  // batch × heads × length × length
  if (causal) {
    const std::int64_t length = scores.size(-1);
    const torch::Tensor later = torch::ones({length, length}, scores.options().dtype(torch::kBool)).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<float>::infinity());
  }
  torch::Tensor weights = torch::softmax(scores, -1);
  weights = models::dropout(weights, dropout, /*training=*/true);
  return torch::matmul(weights, value);
}

torch::Tensor tanh_gelu(const torch::Tensor& x) { return at::gelu(x, "tanh"); }

torch::nn::LayerNorm layer_norm(std::int64_t width) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
}

}  // namespace trireme::models
