#pragma once

#include <vector>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace trireme::models {

struct WideDeepOptions {
  std::int64_t numbers = 0;                     ///< per sample; 0 = none
  std::vector<std::int64_t> classes = {};       ///< of each category; empty = none
  std::vector<std::int64_t> hidden = {64, 32};  ///< widths of the deep part
  std::int64_t outputs = 1;
};

/// For tables (Cheng et al. 2016, https://arxiv.org/abs/1606.07792): a linear part over numbers and categories, which
/// remembers, beside layers over numbers and embeddings of categories, which generalise.
class WideDeepImpl : public torch::nn::Module {
 public:
  explicit WideDeepImpl(const WideDeepOptions& options);

  /// Numbers (batch × numbers), categories (batch × categories), or both in this order -> batch × outputs.
  torch::Tensor forward(const std::vector<torch::Tensor>& inputs);

 private:
  bool has_numbers_;
  bool has_categories_;
  torch::nn::Linear wide_{nullptr};          // over numbers
  torch::nn::ModuleList memory_{nullptr};    // for each category a row of outputs
  torch::nn::ModuleList meanings_{nullptr};  // for each category an embedding
  torch::nn::Sequential deep_{nullptr};
};
TORCH_MODULE(WideDeep);

}  // namespace trireme::models
