#include "trireme/task.h"

#include "trireme/tensor_parallel.h"

#include "base/error.h"

namespace trireme {

Batch::Batch(data::Schema schema, std::vector<torch::Tensor> tensors, std::vector<torch::Tensor> lengths)
    : schema_(std::move(schema)), tensors_(std::move(tensors)), lengths_(std::move(lengths)) {
  if (tensors_.size() != schema_.size()) {
    fail<InvalidArgument>("{} tensors for samples of {} fields: {}", tensors_.size(), schema_.size(),
                          schema_.describe());
  }
  lengths_.resize(tensors_.size());
}

const torch::Tensor& Batch::target() const {
  const std::vector<std::size_t> fields = schema_.with(data::Role::kTarget);
  if (fields.empty()) fail<InvalidArgument>("these samples have no target: {}", schema_.describe());
  return tensors_[fields.front()];
}

std::int64_t Batch::size() const { return tensors_.empty() ? 0 : tensors_.front().size(0); }

Task make_task(std::function<std::vector<torch::Tensor>(const Batch& batch)> inputs,
               std::function<Outcome(const torch::Tensor& output, const Batch& batch)> outcome,
               std::function<Outcome(const torch::Tensor& part, parallel::TensorGroup& group, const Batch& batch)>
                   outcome_of_part) {
  Task task;
  task.name = "task";
  task.inputs = std::move(inputs);
  task.outcome = std::move(outcome);
  task.outcome_of_part = std::move(outcome_of_part);
  task.compute = [halves = task](const Model& model, const Batch& batch) {
    if (!model.run) fail<InvalidArgument>("the model has no forward: train it with a task of your own");
    return outcome_of(halves, model.forward(halves.inputs(batch)), model.divided_output, batch);
  };
  return task;
}

Outcome outcome_of(const Task& task, const torch::Tensor& output, parallel::TensorGroup* divided, const Batch& batch) {
  if (divided == nullptr) return task.outcome(output, batch);
  if (task.outcome_of_part) return task.outcome_of_part(output, *divided, batch);
  const std::int64_t whole = divided->whole_length(output.size(-1), "output");
  return task.outcome(parallel::gather_parts(*divided, output, -1, whole, "output"), batch);
}

std::vector<torch::Tensor> Batch::with(data::Role role) const {
  std::vector<torch::Tensor> found;
  for (const std::size_t field : schema_.with(role)) found.push_back(tensors_[field]);
  return found;
}

}  // namespace trireme
