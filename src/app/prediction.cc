#include "app/prediction.h"

#include <torch/nn/functional/activation.h>

#include "base/error.h"

namespace trireme::app {
namespace {

/// A field of CSV: in quotes where it must be (RFC 4180).
std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + '"';
}

}  // namespace

Prediction::Prediction(std::string task, data::Schema samples, bool probabilities)
    : task_(std::move(task)), samples_(std::move(samples)), probabilities_(probabilities) {
  if (probabilities_ && task_ != "classification" && task_ != "multi-label") {
    fail<InvalidArgument>("--probabilities: task {} has none; classification and multi-label do", task_);
  }
}

torch::Tensor Prediction::of(const Model& model, const Batch& batch) const {
  if (!model.run) {
    fail<InvalidArgument>("the model has no forward: only its task knows how to use it");
  }
  const torch::Tensor output = model.forward(batch.inputs()).to(torch::kFloat32);
  if (classes()) return output.argmax(1).cpu();
  const torch::Tensor rows = output.reshape({batch.size(), -1});
  if (task_ == "classification") return torch::softmax(rows, 1).cpu().contiguous();
  if (task_ != "multi-label") return rows.cpu().contiguous();
  return (probabilities_ ? torch::sigmoid(rows) : rows.gt(0).to(torch::kFloat32)).cpu().contiguous();
}

std::string Prediction::class_name(std::int64_t value) const {
  const data::Field& target = samples_[samples_.with(data::Role::kTarget).front()];
  const auto at = static_cast<std::size_t>(value);
  return at < target.class_names.size() ? quoted(target.class_names[at]) : std::to_string(value);
}

std::string Prediction::as_text(const torch::Tensor& rows) const {
  std::string text;
  const std::int64_t count = rows.size(0);
  for (std::int64_t row = 0; row < count; ++row) {
    if (classes()) {
      text += class_name(rows.data_ptr<std::int64_t>()[row]) + '\n';
      continue;
    }
    const float* values = rows.data_ptr<float>() + row * rows.size(1);
    for (std::int64_t i = 0; i < rows.size(1); ++i) text += fmt::format("{}{}", i == 0 ? "" : ",", values[i]);
    text += '\n';
  }
  return text;
}

std::string Prediction::header(const torch::Tensor& rows) const {
  const std::vector<std::size_t> targets = samples_.with(data::Role::kTarget);
  if (classes()) return quoted(samples_[targets.front()].name) + '\n';
  std::vector<std::string> names;
  if (task_ == "classification") {
    for (std::int64_t i = 0; i < rows.size(1); ++i) names.push_back(class_name(i));
  } else if (task_ == "regression" || task_ == "multi-label") {
    for (const std::size_t i : targets) {
      const data::Field& target = samples_[i];
      for (std::size_t k = 0; k < target.elements(); ++k) {
        names.push_back(quoted(target.elements() == 1 ? target.name : fmt::format("{}_{}", target.name, k)));
      }
    }
  }
  while (std::ssize(names) < rows.size(1)) names.push_back(fmt::format("output_{}", names.size()));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text + '\n';
}

std::string Prediction::as_numbers(const torch::Tensor& rows) const {
  const torch::Tensor plain = rows.contiguous();
  return {static_cast<const char*>(plain.data_ptr()), static_cast<std::size_t>(plain.nbytes())};
}

}  // namespace trireme::app
