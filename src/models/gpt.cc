#include "models/gpt.h"

#include <cmath>

#include <torch/nn/functional/activation.h>
#include <torch/nn/init.h>

#include "base/error.h"
#include "models/attention.h"

namespace trireme::models {
namespace {

constexpr double kDeviation = 0.02;  // of initial values, as published

/// A module that only gives its children the names of the published weights.
class GroupImpl : public torch::nn::Module {
 public:
  template <typename Child>
  Child add(const std::string& name, Child child) {
    return register_module(name, std::move(child));
  }
};
TORCH_MODULE(Group);

}  // namespace

GptBlockImpl::GptBlockImpl(const GptOptions& options) : heads_(options.heads), dropout_(options.dropout) {
  const std::int64_t width = options.width;
  ln_1_ = register_module("ln_1", layer_norm(width));
  Group attention;
  c_attn_ = attention->add("c_attn", torch::nn::Linear(width, 3 * width));
  c_proj_ = attention->add("c_proj", torch::nn::Linear(width, width));
  register_module("attn", attention);
  ln_2_ = register_module("ln_2", layer_norm(width));
  Group mlp;
  c_fc_ = mlp->add("c_fc", torch::nn::Linear(width, 4 * width));
  mlp_proj_ = mlp->add("c_proj", torch::nn::Linear(4 * width, width));
  register_module("mlp", mlp);
  drop_ = register_module("drop", torch::nn::Dropout(options.dropout));
  const double shortcut = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  for (const torch::nn::Linear& linear : {c_attn_, c_fc_, c_proj_, mlp_proj_}) {
    const bool before_sum = linear.get() == c_proj_.get() || linear.get() == mlp_proj_.get();
    torch::nn::init::normal_(linear->weight, 0, before_sum ? shortcut : kDeviation);
    torch::nn::init::zeros_(linear->bias);
  }
}

torch::Tensor GptBlockImpl::attend(const torch::Tensor& x) {
  const std::int64_t batch = x.size(0);
  const std::int64_t length = x.size(1);
  const std::int64_t width = x.size(2);
  const auto heads = [&](const torch::Tensor& part) {  // -> batch × heads × length × width of a head
    return part.reshape({batch, length, heads_, width / heads_}).transpose(1, 2);
  };
  const auto qkv = c_attn_(x).chunk(3, /*dim=*/2);
  const torch::Tensor mixed =
      causal_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), is_training() ? dropout_ : 0.0);
  return c_proj_(mixed.transpose(1, 2).reshape({batch, length, width}));
}

torch::Tensor GptBlockImpl::forward(const torch::Tensor& x) {
  const torch::Tensor attended = x + drop_(attend(ln_1_(x)));
  const torch::Tensor inner = tanh_gelu(c_fc_(ln_2_(attended)));
  return attended + drop_(mlp_proj_(inner));
}

GptImpl::GptImpl(const GptOptions& options) : options_(options) {
  if (options.width % options.heads != 0) {
    fail<InvalidArgument>("a width of {} does not divide by {} heads", options.width, options.heads);
  }
  wte_ = register_module("wte", torch::nn::Embedding(options.vocabulary, options.width));
  wpe_ = register_module("wpe", torch::nn::Embedding(options.context, options.width));
  torch::nn::init::normal_(wte_->weight, 0, kDeviation);
  torch::nn::init::normal_(wpe_->weight, 0, kDeviation);
  drop_ = register_module("drop", torch::nn::Dropout(options.dropout));
  h_ = register_module("h", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < options.layers; ++i) h_->push_back(GptBlock(options));
  ln_f_ = register_module("ln_f", layer_norm(options.width));
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens) {
  const std::int64_t length = tokens.size(1);
  if (length > options_.context) {
    fail<InvalidArgument>("{} tokens at once: this model sees at most {}", length, options_.context);
  }
  const torch::Tensor positions = torch::arange(length, torch::dtype(torch::kInt64).device(tokens.device()));
  torch::Tensor x = drop_(wte_(tokens) + wpe_(positions));  // batch × length × width
  for (const auto& block : *h_) x = block->as<GptBlock>()->forward(x);
  return torch::nn::functional::linear(ln_f_(x), wte_->weight);
}

}  // namespace trireme::models
