#include "data/task_rules.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::data {
namespace {

bool is_float(const Field& field) {
  return field.dtype == DType::kF32 || field.dtype == DType::kF64 || field.dtype == DType::kF16 ||
         field.dtype == DType::kBF16;
}

const Field& only(const Schema& samples, Role role, const char* task, const char* what) {
  const std::vector<std::size_t> fields = samples.with(role);
  if (fields.size() == 1) return samples[fields.front()];
  fail<InvalidArgument>("task {} needs one {} field, and these samples have {}: {}", task, what, fields.size(),
                        samples.describe());
}

[[noreturn]] void refuse(const std::string& task, const Field& field, const std::string& wanted,
                         const std::string& instead) {
  fail<InvalidArgument>("task {} needs {}, and field '{}' is {}; {}", task, wanted, field.name, field.describe(),
                        instead);
}

std::int64_t classification_outputs(const Schema& samples) {
  const Field& target = only(samples, Role::kTarget, "classification", "target");
  if (target.classes.size() != 1 || !target.shape.empty()) {
    refuse("classification", target, "one class per sample as its target",
           is_float(target) ? "for quantities use --task regression" : "for several use --task multi-label");
  }
  return target.classes.front();
}

std::int64_t multi_label_outputs(const Schema& samples) {
  std::int64_t outputs = 0;
  for (const std::size_t i : samples.with(Role::kTarget)) {
    const Field& target = samples[i];
    const bool binary = std::ranges::all_of(target.classes, [](std::int64_t limit) { return limit == 2; });
    if (target.varies() || !(is_float(target) || binary)) {
      refuse("multi-label", target, "a 0 or 1 for each label as its target",
             "for one class per sample use --task classification");
    }
    outputs += static_cast<std::int64_t>(target.elements());
  }
  if (outputs == 0) {
    fail<InvalidArgument>("task multi-label needs target fields, and these samples have none: {}", samples.describe());
  }
  return outputs;
}

std::int64_t regression_outputs(const Schema& samples) {
  std::int64_t outputs = 0;
  for (const std::size_t i : samples.with(Role::kTarget)) {
    const Field& target = samples[i];
    if (!target.class_names.empty()) {
      refuse("regression", target, "quantities as its target", "its classes are text; use --task classification");
    }
    if (target.varies()) refuse("regression", target, "quantities as its target", "its length varies");
    outputs += static_cast<std::int64_t>(target.elements());
  }
  if (outputs == 0) {
    fail<InvalidArgument>("task regression needs a target field, and these samples have none: {}", samples.describe());
  }
  return outputs;
}

std::int64_t language_outputs(const Schema& samples) {
  const Field& tokens = only(samples, Role::kInput, "language-model", "input");
  if (tokens.classes.size() != 1 || tokens.shape.size() != 1) {
    refuse("language-model", tokens, "samples of tokens",
           "make tokens of text with 'trireme data tokenize', or give a text file");
  }
  if (!tokens.varies() && tokens.shape.front() < 2) {
    refuse("language-model", tokens, "at least two tokens per sample", "give longer samples (--length)");
  }
  return tokens.classes.front();
}

std::int64_t autoencoder_outputs(const Schema& samples) {
  const Field& input = only(samples, Role::kInput, "autoencoder", "input");
  if (!is_float(input) || input.varies()) refuse("autoencoder", input, "numbers of a fixed shape as its input", "");
  return static_cast<std::int64_t>(input.elements());
}

}  // namespace

const std::vector<std::string>& ready_tasks() {
  static const std::vector<std::string> names{"classification", "multi-label", "regression", "language-model",
                                              "autoencoder"};
  return names;
}

std::int64_t outputs_for(const std::string& task, const Schema& samples) {
  if (task == "classification") return classification_outputs(samples);
  if (task == "multi-label") return multi_label_outputs(samples);
  if (task == "regression") return regression_outputs(samples);
  if (task == "language-model") return language_outputs(samples);
  if (task == "autoencoder") return autoencoder_outputs(samples);
  fail<InvalidArgument>("there is no task '{}'{}: use {}", task, did_you_mean(task, ready_tasks()),
                        fmt::join(ready_tasks(), ", "));
}

std::string fitting_task(const Schema& samples) {
  const std::vector<std::size_t> targets = samples.with(Role::kTarget);
  const std::vector<std::size_t> inputs = samples.with(Role::kInput);
  if (targets.empty()) {
    const bool tokens =
        inputs.size() == 1 && samples[inputs[0]].classes.size() == 1 && samples[inputs[0]].shape.size() == 1;
    return tokens ? "language-model" : "autoencoder";
  }
  const Field& target = samples[targets.front()];
  if (targets.size() == 1 && target.classes.size() == 1 && target.shape.empty()) return "classification";
  if (targets.size() == 1 && !target.classes.empty()) return "multi-label";
  return "regression";
}

std::vector<std::string> ready_metrics(const std::string& task) {
  if (task == "classification") return {"accuracy", "loss"};
  if (task == "multi-label") return {"accuracy", "exact_accuracy", "loss"};
  if (task == "regression") return {"rmse", "mae", "loss"};
  if (task == "language-model") return {"bits_per_token", "perplexity", "loss"};
  if (task == "autoencoder") return {"rmse", "loss"};
  fail<InvalidArgument>("there is no task '{}'{}: use {}", task, did_you_mean(task, ready_tasks()),
                        fmt::join(ready_tasks(), ", "));
}

}  // namespace trireme::data
