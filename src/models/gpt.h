#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace trireme::models {

struct GptOptions {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;  ///< the most tokens it sees at once
  std::int64_t vocabulary = 50257;
  double dropout = 0;
};

/// Causal self-attention and a layer of four times the width, each behind a normalisation and beside a shortcut.
class GptBlockImpl : public torch::nn::Module {
 public:
  explicit GptBlockImpl(const GptOptions& options);
  torch::Tensor forward(const torch::Tensor& x);  ///< batch × length × width, likewise

 private:
  torch::Tensor attend(const torch::Tensor& x);

  std::int64_t heads_;
  double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  torch::nn::Linear c_attn_{nullptr}, c_proj_{nullptr}, c_fc_{nullptr}, mlp_proj_{nullptr};
  torch::nn::Dropout drop_{nullptr};
};
TORCH_MODULE(GptBlock);

/// GPT-2 (Radford et al. 2019), with parameters named as its published weights are: wte, wpe, h.0.attn.c_attn, ...,
/// ln_f. The embedding of tokens is also the last layer, so a token costs its row once.
class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const GptOptions& options);

  torch::Tensor forward(const torch::Tensor& tokens);  ///< batch × length -> batch × length × vocabulary

  std::int64_t context() const { return options_.context; }

 private:
  GptOptions options_;
  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  torch::nn::Dropout drop_{nullptr};
  torch::nn::ModuleList h_{nullptr};
  torch::nn::LayerNorm ln_f_{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace trireme::models
