#include <numeric>

#include <torch/nn/functional/loss.h>

#include "trireme/trainer.h"

namespace trireme {

Loss cross_entropy() {
  return [](const torch::Tensor& output, const torch::Tensor& target) {
    return torch::nn::functional::cross_entropy(output, target);
  };
}

Metric correct_predictions() {
  return [](const torch::Tensor& output, const torch::Tensor& target) {
    return output.argmax(1).eq(target).sum().item<double>();
  };
}

Evaluation evaluate(const Model& model, const data::Dataset& dataset, const TrainOptions& options) {
  constexpr std::uint64_t kBatch = 500;
  torch::NoGradGuard no_grad;
  const bool was_training = model.module->is_training();
  model.module->eval();
  data::Batch batch;
  double loss = 0;
  double correct = 0;
  for (std::uint64_t first = 0; first < dataset.size(); first += kBatch) {
    std::vector<std::uint64_t> indices(std::min(kBatch, dataset.size() - first));
    std::iota(indices.begin(), indices.end(), first);
    dataset.read(indices, batch);
    const auto count = static_cast<std::int64_t>(batch.size());
    std::vector<std::int64_t> shape{count};
    shape.insert(shape.end(), dataset.sample_shape().begin(), dataset.sample_shape().end());
    const auto features = torch::from_blob(batch.features.data(), shape).to(options.device);
    const auto labels = torch::from_blob(batch.labels.data(), {count}, torch::kInt64).to(options.device);
    const auto output = model.forward(features);
    loss += options.loss(output, labels).item<double>() * static_cast<double>(count);
    if (options.metric) correct += options.metric(output, labels);
  }
  model.module->train(was_training);
  const auto total = static_cast<double>(dataset.size());
  return {.loss = loss / total, .accuracy = correct / total};
}

}  // namespace trireme
