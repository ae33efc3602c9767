#include "cli/model/model_rules.h"

#include <algorithm>
#include <functional>

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme::cli {
namespace {

using data::Field;

bool is_image(const Field& field) { return field.shape.size() == 3 && field.classes.empty(); }
bool is_small_image(const Field& field) { return is_image(field) && field.shape[1] == 28 && field.shape[2] == 28; }
bool is_tokens(const Field& field) { return field.shape.size() == 1 && field.classes.size() == 1; }
bool is_numbers(const Field& field) { return field.classes.empty() && !field.varies(); }

struct Rule {
  std::string model;
  bool (*takes)(const Field& input);
  const char* needs;
  std::vector<std::string> settings = {};
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"gpt-10m", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"gpt-tiny", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"gpt2", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"gpt2-large", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"gpt2-medium", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"gpt2-xl", is_tokens, "tokens", {"layers", "heads", "width", "dropout"}},
      {"lenet", is_small_image, "images of channels x 28 x 28"},
      {"lstm", is_tokens, "tokens", {"layers", "width"}},
      {"mlp", is_numbers, "numbers of a fixed shape", {"layers", "width"}},
      {"resnet18", is_image, "images of channels x rows x columns", {"width"}},
      {"resnet20", is_image, "images of channels x rows x columns", {"width"}},
      {"resnet50", is_image, "images of channels x rows x columns", {"width"}},
      {"vit-tiny", is_image, "images of channels x rows x columns", {"layers", "heads", "width", "patch"}},
      {"wide-deep", nullptr, "a table", {"layers", "width"}},
  };
  return all;
}

}  // namespace

const std::vector<std::string>& known_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Rule& rule : rules()) all.push_back(rule.model);
    return all;
  }();
  return names;
}

std::vector<std::string> model_settings(const std::string& model) {
  const auto rule = std::ranges::find(rules(), model, &Rule::model);
  return rule == rules().end() ? std::vector<std::string>() : rule->settings;
}

void check_model_takes(const std::string& text, const data::Schema& samples) {
  const std::string model = text.substr(0, text.find(':'));
  const auto rule = std::ranges::find(rules(), model, &Rule::model);
  if (rule == rules().end() || rule->takes == nullptr) return;
  const auto inputs = samples.with(data::Role::kInput);
  const auto fitting = [&](const Field& field) {
    std::vector<std::string> names;
    for (const Rule& other : rules()) {
      if (other.takes != nullptr && other.takes(field)) names.push_back(other.model);
    }
    if (names.empty()) names.push_back("wide-deep");  // categories of a table
    return names;
  };
  if (inputs.size() != 1) {
    fail<InvalidArgument>("--model {} takes one input, and these samples have {}: {}; use wide-deep", model,
                          inputs.size(), samples.describe());
  }
  const Field& input = samples[inputs.front()];
  if (rule->takes(input)) return;
  fail<InvalidArgument>("--model {} needs {}, and field '{}' is {}; use {}", model, rule->needs, input.name,
                        input.describe(), fmt::join(fitting(input), ", "));
}

}  // namespace trireme::cli
