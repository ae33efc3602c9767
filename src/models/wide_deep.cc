#include "models/wide_deep.h"

#include <algorithm>
#include <cmath>

#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/embedding.h>

namespace trireme::models {
namespace {

/// More classes deserve more numbers each, up to a point.
std::int64_t embedding_width(std::int64_t classes) {
  return std::clamp<std::int64_t>(std::llround(1.6 * std::pow(static_cast<double>(classes), 0.56)), 2, 64);
}

}  // namespace

WideDeepImpl::WideDeepImpl(const WideDeepOptions& options)
    : has_numbers_(options.numbers > 0), has_categories_(!options.classes.empty()) {
  if (has_numbers_) wide_ = register_module("wide", torch::nn::Linear(options.numbers, options.outputs));
  memory_ = register_module("memory", torch::nn::ModuleList());
  meanings_ = register_module("meanings", torch::nn::ModuleList());
  std::int64_t width = options.numbers;
  for (const std::int64_t classes : options.classes) {
    torch::nn::Embedding remembered(classes, options.outputs);
    torch::nn::init::zeros_(remembered->weight);
    memory_->push_back(remembered);
    torch::nn::Embedding meaning(classes, embedding_width(classes));
    torch::nn::init::normal_(meaning->weight, 0, 0.05);
    meanings_->push_back(meaning);
    width += embedding_width(classes);
  }
  deep_ = register_module("deep", torch::nn::Sequential());
  for (const std::int64_t next : options.hidden) {
    deep_->push_back(torch::nn::Linear(width, next));
    deep_->push_back(torch::nn::ReLU());
    width = next;
  }
  deep_->push_back(torch::nn::Linear(width, options.outputs));
}

torch::Tensor WideDeepImpl::forward(const std::vector<torch::Tensor>& inputs) {
  std::vector<torch::Tensor> parts;
  torch::Tensor wide;
  if (has_numbers_) {
    parts.push_back(inputs.front().flatten(1));
    wide = wide_(parts.front());
  }
  for (std::size_t i = 0; has_categories_ && i < meanings_->size(); ++i) {
    const torch::Tensor category = inputs.back().select(1, static_cast<std::int64_t>(i));
    parts.push_back((*meanings_)[i]->as<torch::nn::Embedding>()->forward(category));
    const torch::Tensor remembered = (*memory_)[i]->as<torch::nn::Embedding>()->forward(category);
    wide = wide.defined() ? wide + remembered : remembered;
  }
  return wide + deep_->forward(torch::cat(parts, 1));
}

}  // namespace trireme::models
