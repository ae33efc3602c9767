#include "models/lstm.h"

namespace trireme::models {

LstmImpl::LstmImpl(const LstmOptions& options) {
  embedding_ = register_module("embedding", torch::nn::Embedding(options.vocabulary, options.width));
  lstm_ = register_module(
      "lstm", torch::nn::LSTM(
                  torch::nn::LSTMOptions(options.width, options.width).num_layers(options.layers).batch_first(true)));
  head_ = register_module("head", torch::nn::Linear(options.width, options.vocabulary));
}

torch::Tensor LstmImpl::forward(const torch::Tensor& tokens) {
  const torch::Tensor read = std::get<0>(lstm_(embedding_(tokens)));  // batch × length × width
  return head_(read);
}

}  // namespace trireme::models
