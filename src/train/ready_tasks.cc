#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>
#include <torch/nn/functional/loss.h>

#include "trireme/fused.h"
#include "trireme/task.h"
#include "trireme/tensor_parallel.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/task_rules.h"
#include "tensor/loss_factor.h"

namespace trireme {
namespace {

namespace F = torch::nn::functional;

/// A metric whose sum is a tensor.
struct TensorMetric {
  const char* name;
  torch::Tensor sum;
  double count;
  MetricForm form = MetricForm::kMean;
};

/// Reads them once they are asked for.
decltype(Outcome::late_metrics) read_late(std::vector<TensorMetric> metrics) {
  return [metrics = std::move(metrics)](double /*loss*/) {
    Metrics read;
    for (const TensorMetric& metric : metrics) {
      read.push_back(
          {.name = metric.name, .sum = metric.sum.item<double>(), .count = metric.count, .form = metric.form});
    }
    return read;
  };
}

/// All targets side by side, as floats: samples × numbers.
torch::Tensor quantities(const Batch& batch) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& target : batch.targets()) {
    parts.push_back(target.to(torch::kFloat32).reshape({target.size(0), -1}));
  }
  return parts.size() == 1 ? parts.front() : torch::cat(parts, 1);
}

Outcome squared_error(const torch::Tensor& output, const torch::Tensor& target, bool with_mae) {
  if (output.numel() != target.numel()) {
    fail<InvalidArgument>("the model gives {} numbers for a batch that has {}: its last layer does not fit the target",
                          output.numel(), target.numel());
  }
  const torch::Tensor apart = output.reshape(target.sizes()) - target;
  const torch::Tensor squares = apart.square();
  const auto count = static_cast<double>(target.numel());
  const torch::Tensor loss = squares.mean();
  const torch::NoGradGuard no_grad;
  std::vector<TensorMetric> metrics{{.name = "rmse", .sum = squares.sum(), .count = count, .form = MetricForm::kRoot}};
  if (with_mae) metrics.push_back({.name = "mae", .sum = apart.abs().sum(), .count = count});
  return {.loss = loss, .late_metrics = read_late(std::move(metrics))};
}

using MakeOutcome = std::function<Outcome(const torch::Tensor& output, const Batch& batch)>;

std::vector<torch::Tensor> all_inputs(const Batch& batch) { return batch.inputs(); }

/// In which precision the output of a model comes to the loss. It is computed in full precision either way.
enum class Given { kFloat, kAsItIs };

Task ready(const char* name, MakeOutcome outcome, const char* best_by = "",
           std::function<std::vector<torch::Tensor>(const Batch&)> inputs = all_inputs,
           decltype(Task::outcome_of_part) outcome_of_part = {}, Given given = Given::kFloat) {
  Task task = make_task(
      std::move(inputs),
      [outcome = std::move(outcome), given](const torch::Tensor& output, const Batch& batch) {
        return outcome(given == Given::kFloat ? output.to(torch::kFloat32) : output, batch);
      },
      std::move(outcome_of_part));
  task.name = name;
  task.outputs = [name](const data::Schema& samples) { return data::outputs_for(name, samples); };
  task.best_by = best_by;
  task.steady = true;
  return task;
}

}  // namespace

Task classification(const ClassificationOptions& options) {
  const auto outcome_of = [options](const torch::Tensor& output, const Batch& batch) -> Outcome {
    const torch::Tensor target = batch.target().to(torch::kInt64);
    const auto how = F::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing);
    const torch::Tensor loss = F::cross_entropy(output, target, how);
    const torch::NoGradGuard no_grad;
    const torch::Tensor right = output.argmax(1).eq(target).sum();
    return {
        .loss = loss,
        .late_metrics = read_late({{.name = "accuracy", .sum = right, .count = static_cast<double>(target.size(0))}})};
  };
  return ready("classification", outcome_of, "accuracy");
}

Task multi_label() {
  const auto outcome_of = [](const torch::Tensor& given, const Batch& batch) -> Outcome {
    const torch::Tensor target = quantities(batch);
    const torch::Tensor output = given.reshape(target.sizes());
    const torch::Tensor loss = F::binary_cross_entropy_with_logits(output, target);
    const torch::NoGradGuard no_grad;
    const torch::Tensor right = output.gt(0).eq(target.gt(0.5));
    return {.loss = loss,
            .late_metrics = read_late(
                {{.name = "accuracy", .sum = right.sum(), .count = static_cast<double>(right.numel())},
                 {.name = "exact_accuracy", .sum = right.all(1).sum(), .count = static_cast<double>(right.size(0))}})};
  };
  return ready("multi-label", outcome_of, "accuracy");
}

Task regression() {
  return ready("regression", [](const torch::Tensor& output, const Batch& batch) {
    return squared_error(output, quantities(batch), /*with_mae=*/true);
  });
}

namespace {

/// What tokens of `batch` should follow those the model sees: samples × length, as one row.
torch::Tensor next_tokens(const Batch& batch) {
  const torch::Tensor tokens = batch.inputs().front();
  return tokens.narrow(1, 1, tokens.size(1) - 1).to(torch::kInt64).reshape(-1);
}

Outcome language_outcome(const torch::Tensor& loss, std::int64_t tokens) {
  const auto count = static_cast<double>(tokens);
  return {.loss = loss, .late_metrics = [count](double mean) -> Metrics {
            return {{.name = "bits_per_token", .sum = mean * count / std::log(2.0), .count = count},
                    {.name = "perplexity", .sum = mean * count, .count = count, .form = MetricForm::kExp}};
          }};
}

}  // namespace

Task language_model() {
  const auto inputs_of = [](const Batch& batch) {
    const torch::Tensor tokens = batch.inputs().front();  // samples × length
    return std::vector{tokens.narrow(1, 0, tokens.size(1) - 1)};
  };
  const auto outcome_of = [](const torch::Tensor& output, const Batch& batch) -> Outcome {
    const torch::Tensor target = next_tokens(batch);
    // output: samples × length × vocabulary
    return language_outcome(last_cross_entropy(output.flatten(0, -2), target, LossFactor::current()), target.size(0));
  };
  const auto outcome_of_part = [](const torch::Tensor& part, parallel::TensorGroup& group, const Batch& batch) {
    const torch::Tensor target = next_tokens(batch);
    const std::int64_t vocabulary = group.whole_length(part.size(-1), "vocabulary");
    const auto logits =
        parallel::split_part(group, part.to(torch::kFloat32).reshape({target.size(0), -1}), 1, vocabulary);
    return language_outcome(parallel::vocabulary_cross_entropy(group, logits, target, vocabulary), target.size(0));
  };
  return ready("language-model", outcome_of, "", inputs_of, outcome_of_part, Given::kAsItIs);
}

Task autoencoder() {
  return ready("autoencoder", [](const torch::Tensor& output, const Batch& batch) {
    return squared_error(output, batch.inputs().front(), /*with_mae=*/false);
  });
}

namespace {

/// Those of the program, by name.
std::map<std::string, MakeTask>& registry() {
  static std::map<std::string, MakeTask> tasks;
  return tasks;
}

}  // namespace

void register_task(const std::string& name, MakeTask make) {
  if (std::ranges::count(data::ready_tasks(), name) > 0 || !registry().emplace(name, std::move(make)).second) {
    fail<InvalidArgument>("there is a task '{}' already: give yours another name", name);
  }
}

std::vector<std::string> task_names() {
  std::vector<std::string> names = data::ready_tasks();
  for (const auto& [name, make] : registry()) names.push_back(name);
  return names;
}

Task make_task(const std::string& name, const ClassificationOptions& options) {
  if (const auto own = registry().find(name); own != registry().end()) {
    Task task = own->second();
    task.name = name;
    return task;
  }
  if (name == "classification") return classification(options);
  if (name == "multi-label") return multi_label();
  if (name == "regression") return regression();
  if (name == "language-model") return language_model();
  if (name == "autoencoder") return autoencoder();
  fail<InvalidArgument>("there is no task '{}'{}: use {}", name, did_you_mean(name, task_names()),
                        fmt::join(task_names(), ", "));
}

std::string task_for(const data::Schema& samples) { return data::fitting_task(samples); }

}  // namespace trireme
