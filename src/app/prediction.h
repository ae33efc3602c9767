#pragma once

#include <string>

#include "trireme/model.h"
#include "trireme/task.h"

namespace trireme::app {

/// What the outputs of a model mean, by its task, as people and programs read it.
class Prediction {
 public:
  /// `samples`: what the model was trained on. Throws InvalidArgument if probabilities are wanted of a task that has
  /// none.
  Prediction(std::string task, data::Schema samples, bool probabilities);

  /// Returns a row for each sample, on the CPU: classes as I64 {samples}; probabilities, quantities and the outputs of
  /// tasks of one's own as F32 {samples, numbers}. Throws InvalidArgument if the model has no forward.
  torch::Tensor of(const Model& model, const Batch& batch) const;

  /// The rows as lines of CSV, with the names of classes where they are known; and what their columns are called.
  std::string as_text(const torch::Tensor& rows) const;
  std::string header(const torch::Tensor& rows) const;

  /// The rows as bytes, and their type as NumPy spells it.
  std::string as_numbers(const torch::Tensor& rows) const;
  std::string numpy_type() const { return classes() ? "<i8" : "<f4"; }

 private:
  bool classes() const { return task_ == "classification" && !probabilities_; }
  std::string class_name(std::int64_t value) const;

  std::string task_;
  data::Schema samples_;
  bool probabilities_;
};

}  // namespace trireme::app
