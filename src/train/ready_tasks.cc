#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>
#include <torch/nn/functional/loss.h>

#include "trireme/task.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/task_rules.h"

namespace trireme {
namespace {

namespace F = torch::nn::functional;

double sum_of(const torch::Tensor& values) { return values.sum().item<double>(); }

/// Losses are computed in full precision, whatever the model computes with.
torch::Tensor outputs_of(const Model& model, const std::vector<torch::Tensor>& inputs) {
  if (!model.run) fail<InvalidArgument>("the model has no forward: train it with a task of your own");
  return model.forward(inputs).to(torch::kFloat32);
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
  Outcome outcome{.loss = squares.mean(), .metrics = {}};
  const torch::NoGradGuard no_grad;
  outcome.metrics.push_back({.name = "rmse", .sum = sum_of(squares), .count = count, .form = MetricForm::kRoot});
  if (with_mae) outcome.metrics.push_back({.name = "mae", .sum = sum_of(apart.abs()), .count = count});
  return outcome;
}

Task ready(const char* name, std::function<Outcome(const Model&, const Batch&)> compute, const char* best_by = "") {
  Task task;
  task.name = name;
  task.compute = std::move(compute);
  task.outputs = [name](const data::Schema& samples) { return data::outputs_for(name, samples); };
  task.best_by = best_by;
  return task;
}

}  // namespace

Task classification(const ClassificationOptions& options) {
  const auto compute = [options](const Model& model, const Batch& batch) -> Outcome {
    const torch::Tensor output = outputs_of(model, batch.inputs());
    const torch::Tensor target = batch.target().to(torch::kInt64);
    const auto how = F::CrossEntropyFuncOptions().label_smoothing(options.label_smoothing);
    Outcome outcome{.loss = F::cross_entropy(output, target, how), .metrics = {}};
    const torch::NoGradGuard no_grad;
    outcome.metrics.push_back(
        {.name = "accuracy", .sum = sum_of(output.argmax(1).eq(target)), .count = static_cast<double>(target.size(0))});
    return outcome;
  };
  return ready("classification", compute, "accuracy");
}

Task multi_label() {
  const auto compute = [](const Model& model, const Batch& batch) -> Outcome {
    const torch::Tensor target = quantities(batch);
    const torch::Tensor output = outputs_of(model, batch.inputs()).reshape(target.sizes());
    Outcome outcome{.loss = F::binary_cross_entropy_with_logits(output, target), .metrics = {}};
    const torch::NoGradGuard no_grad;
    const torch::Tensor right = output.gt(0).eq(target.gt(0.5));
    outcome.metrics = {
        {.name = "accuracy", .sum = sum_of(right), .count = static_cast<double>(right.numel())},
        {.name = "exact_accuracy", .sum = sum_of(right.all(1)), .count = static_cast<double>(right.size(0))}};
    return outcome;
  };
  return ready("multi-label", compute, "accuracy");
}

Task regression() {
  const auto compute = [](const Model& model, const Batch& batch) {
    return squared_error(outputs_of(model, batch.inputs()), quantities(batch), /*with_mae=*/true);
  };
  return ready("regression", compute);
}

Task language_model() {
  const auto compute = [](const Model& model, const Batch& batch) -> Outcome {
    const torch::Tensor tokens = batch.inputs().front();  // samples × length
    const std::int64_t length = tokens.size(1) - 1;
    const torch::Tensor target = tokens.narrow(1, 1, length).to(torch::kInt64).reshape(-1);
    const torch::Tensor output = outputs_of(model, {tokens.narrow(1, 0, length)});  // samples × length × vocabulary
    const torch::Tensor logits = output.reshape({target.size(0), -1});
    Outcome outcome{.loss = F::cross_entropy(logits, target), .metrics = {}};
    const torch::NoGradGuard no_grad;
    const auto count = static_cast<double>(target.size(0));
    const double nats = outcome.loss.item<double>() * count;
    outcome.metrics = {{.name = "bits_per_token", .sum = nats / std::log(2.0), .count = count},
                       {.name = "perplexity", .sum = nats, .count = count, .form = MetricForm::kExp}};
    return outcome;
  };
  return ready("language-model", compute);
}

Task autoencoder() {
  const auto compute = [](const Model& model, const Batch& batch) {
    return squared_error(outputs_of(model, batch.inputs()), batch.inputs().front(), /*with_mae=*/false);
  };
  return ready("autoencoder", compute);
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
