#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

namespace trireme::models {

struct LstmOptions {
  std::int64_t vocabulary = 256;
  std::int64_t width = 256;
  std::int64_t layers = 2;
};

/// A language model by long short-term memory (Hochreiter and Schmidhuber 1997): it reads tokens one after the other.
class LstmImpl : public torch::nn::Module {
 public:
  explicit LstmImpl(const LstmOptions& options);

  torch::Tensor forward(const torch::Tensor& tokens);  ///< batch × length -> batch × length × vocabulary

 private:
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::LSTM lstm_{nullptr};
  torch::nn::Linear head_{nullptr};
};
TORCH_MODULE(Lstm);

}  // namespace trireme::models
