#include <gtest/gtest.h>

#include "trireme/model.h"

#include "cli/model/model_rules.h"
#include "plan/cost/model_cost.h"

namespace trireme::plan {
namespace {

std::uint64_t counted_parameters(const std::string& model, const data::Schema& samples, std::int64_t outputs) {
  const Model made = make_model(model, samples, outputs);
  std::uint64_t count = 0;
  for (const torch::Tensor& parameter : made.module->parameters()) {
    count += static_cast<std::uint64_t>(parameter.numel());
  }
  return count;
}

data::Schema pictures(const std::vector<std::uint64_t>& shape, std::int64_t classes) {
  return {{.name = "image", .shape = {shape.begin(), shape.end()}},
          {.name = "label", .dtype = DType::kI64, .role = data::Role::kTarget, .classes = {classes}}};
}

/// A model sees all tokens of a sample but the last.
data::Schema words(std::int64_t length, std::int64_t vocabulary) {
  return {{.name = "tokens", .dtype = DType::kI32, .shape = {length + 1}, .classes = {vocabulary}}};
}

TEST(PlanCost, CountsTheParametersThatLanguageModelsHave) {
  for (const char* name : {"gpt-tiny", "gpt-10m", "lstm"}) {
    for (const auto& [length, vocabulary] : {std::pair{8, 11}, std::pair{64, 257}}) {
      const ModelInput input{.length = static_cast<std::uint64_t>(length),
                             .classes = static_cast<std::uint64_t>(vocabulary)};
      EXPECT_EQ(model_cost(name, input).parameters(), counted_parameters(name, words(length, vocabulary), vocabulary))
          << name;
    }
  }
  EXPECT_EQ(model_cost("gpt2").parameters(), counted_parameters("gpt2", words(1024, 50257), 50257));
}

TEST(PlanCost, CountsTheParametersThatImageModelsHave) {
  const std::vector<std::pair<std::string, std::vector<std::uint64_t>>> inputs = {
      {"lenet", {1, 28, 28}},    {"lenet", {3, 28, 28}},     {"mlp", {1, 28, 28}},        {"mlp", {7}},
      {"resnet20", {3, 32, 32}}, {"resnet18", {1, 28, 28}},  {"resnet18", {3, 224, 224}}, {"resnet50", {3, 224, 224}},
      {"vit-tiny", {3, 32, 32}}, {"vit-tiny", {3, 224, 224}}};
  for (const auto& [name, shape] : inputs) {
    for (const std::int64_t classes : {7, 1000}) {
      const ModelInput input{.shape = shape, .classes = static_cast<std::uint64_t>(classes)};
      EXPECT_EQ(model_cost(name, input).parameters(), counted_parameters(name, pictures(shape, classes), classes))
          << name;
    }
  }
}

TEST(PlanCost, KnowsEveryModelThatDoesNotDependOnATable) {
  for (const std::string& name : cli::known_models()) {
    if (name == "wide-deep") continue;
    EXPECT_NO_THROW(model_cost(name)) << name;
  }
}

}  // namespace
}  // namespace trireme::plan
