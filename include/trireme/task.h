#pragma once

// What training means: from a batch to a loss and to numbers that people read.

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/types.h>

#include "trireme/dataset.h"
#include "trireme/metrics.h"
#include "trireme/model.h"

namespace trireme {

/// A batch as tensors, on the device where the model is: one per field, of samples × the field's shape.
class Batch {
 public:
  Batch() = default;

  /// Throws InvalidArgument unless there is a tensor for each field. `lengths` has one for each field that varies.
  Batch(data::Schema schema, std::vector<torch::Tensor> tensors, std::vector<torch::Tensor> lengths = {});

  /// The field of this name. Throws InvalidArgument that lists the names there are.
  const torch::Tensor& operator[](std::string_view field) const { return tensors_[schema_.index_of(field)]; }

  /// How long each sample of a field that varies is.
  const torch::Tensor& lengths(std::string_view field) const { return lengths_[schema_.index_of(field)]; }

  /// What goes into the model.
  std::vector<torch::Tensor> inputs() const { return with(data::Role::kInput); }

  /// What it should say.
  std::vector<torch::Tensor> targets() const { return with(data::Role::kTarget); }

  /// The first of them. Throws InvalidArgument if there is none.
  const torch::Tensor& target() const;

  std::int64_t size() const;  ///< samples
  const data::Schema& schema() const { return schema_; }

 private:
  std::vector<torch::Tensor> with(data::Role role) const;

  data::Schema schema_;
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> lengths_;  // undefined where nothing varies
};

/// Reads samples as tensors on `device`, which own their memory: for loops of one's own. Throws as Dataset::read.
Batch read_samples(const data::Dataset& samples, std::span<const std::uint64_t> indices,
                   torch::Device device = torch::kCPU, std::uint64_t epoch = 0);

/// What a task makes of a batch.
struct Outcome {
  torch::Tensor loss = {};  ///< a scalar: the mean over the samples of the batch
  Metrics metrics = {};

  /// More of them, asked for once the GPU has its work: to read a tensor waits for it. May be empty; `loss` is the
  /// value of the loss.
  std::function<Metrics(double loss)> late_metrics = {};
};

/// What training means. Ready ones are below; any function of a batch is one too:
///
///   auto task = [net](const trireme::Batch& batch) {
///     const auto left = net->forward(batch["left"]), right = net->forward(batch["right"]);
///     return trireme::Outcome{contrastive(left, right, batch["same"]), {{.name = "distance", .sum = ..., .count =
///     ...}}};
///   };
struct Task {
  std::string name = {};

  /// Called with gradients on for training, and without for evaluation.
  std::function<Outcome(const Model& model, const Batch& batch)> compute = {};

  /// The two halves of `compute`, for a model whose parts are in several processes (a pipeline): what goes into the
  /// model, which the first of them needs, and what is made of its output, which the last one does. Null: `compute`
  /// alone knows, and the task needs the model whole.
  std::function<std::vector<torch::Tensor>(const Batch& batch)> inputs = {};
  std::function<Outcome(const torch::Tensor& output, const Batch& batch)> outcome = {};

  /// As `outcome`, of an output whose last dimension is divided among `group` (tensor_parallel.h): `part` is this
  /// process's. Null: `outcome` needs all of it, which is then gathered.
  std::function<Outcome(const torch::Tensor& part, parallel::TensorGroup& group, const Batch& batch)> outcome_of_part =
      {};

  /// How many numbers per sample a network should give for these samples. Throws InvalidArgument, naming the field and
  /// what fits, if the task cannot be had with them. Null: the network knows.
  std::function<std::int64_t(const data::Schema& samples)> outputs = {};

  bool steady = false;  ///< as Model::steady: what `compute` does depends on model and batch alone

  std::string best_by = {};  ///< the metric of which more is better; empty: the loss, of which less is

  Task() = default;

  template <typename Function>
  requires std::invocable<Function, const Batch&> &&(!std::same_as<std::remove_cvref_t<Function>, Task>)
      Task(Function function)  // NOLINT(google-explicit-constructor): a function of a batch is a task
      : name("task"), compute([function = std::move(function)](const Model&, const Batch& batch) -> Outcome {
          if constexpr (std::convertible_to<std::invoke_result_t<Function, const Batch&>, torch::Tensor>) {
            return {.loss = function(batch)};
          } else {
            return function(batch);
          }
        }) {}

  /// The same for a function of the model and a batch: what a program registers, which does not have its model yet.
  template <typename Function>
  requires std::invocable<Function, const Model&, const Batch&> Task(
      Function function)  // NOLINT(google-explicit-constructor): likewise
      : name("task"), compute([function = std::move(function)](const Model& model, const Batch& batch) -> Outcome {
          if constexpr (std::convertible_to<std::invoke_result_t<Function, const Model&, const Batch&>,
                                            torch::Tensor>) {
            return {.loss = function(model, batch)};
          } else {
            return function(model, batch);
          }
        }) {}
};

/// Returns the task that gives a model `inputs(batch)` and makes `outcome(output, batch)` of its output. One made like
/// this can be used with every strategy.
///
///   auto task = trireme::make_task([](const trireme::Batch& batch) { return batch.inputs(); },
///                                  [](const torch::Tensor& output, const trireme::Batch& batch) {
///                                    return trireme::Outcome{.loss = torch::mse_loss(output, batch["y"])};
///                                  });
Task make_task(std::function<std::vector<torch::Tensor>(const Batch& batch)> inputs,
               std::function<Outcome(const torch::Tensor& output, const Batch& batch)> outcome,
               std::function<Outcome(const torch::Tensor& part, parallel::TensorGroup& group, const Batch& batch)>
                   outcome_of_part = {});

/// Returns what `task` makes of a model's output, of which `divided` (null: none) says among whom its last dimension is
/// divided: by `outcome_of_part`, or by `outcome` of the whole, which is gathered if need be.
Outcome outcome_of(const Task& task, const torch::Tensor& output, parallel::TensorGroup* divided, const Batch& batch);

struct ClassificationOptions {
  double label_smoothing = 0;
};

/// One class per sample: cross entropy; accuracy.
Task classification(const ClassificationOptions& options = {});

/// Any number of classes per sample, the target is 0 or 1 for each: binary cross entropy; accuracy over all of them,
/// exact_accuracy where a sample counts if all are right.
Task multi_label();

/// Quantities: mean squared error; rmse, mae.
Task regression();

/// The next token: cross entropy per token; bits_per_token, perplexity. The samples have one field of tokens;
/// the model sees all but the last of each sample and should say all but the first.
Task language_model();

/// The input again: mean squared error; rmse.
Task autoencoder();

/// Makes a task; called once in each process.
using MakeTask = std::function<Task()>;

/// Makes `name` known to `make_task`, and to `--task` of a program that calls `train_main`. The task gets this name.
/// Throws InvalidArgument if there is one already.
void register_task(const std::string& name, MakeTask make);

/// Returns the names of the ready tasks, classification, multi-label, ..., and of those registered.
std::vector<std::string> task_names();

/// Returns the task of this name; `options` are for ready ones. Throws InvalidArgument if there is none.
Task make_task(const std::string& name, const ClassificationOptions& options = {});

/// Returns the ready task that fits the samples: classes to predict, quantities, or tokens alone. Throws
/// InvalidArgument if none does.
std::string task_for(const data::Schema& samples);

}  // namespace trireme
