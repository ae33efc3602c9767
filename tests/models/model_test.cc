#include "trireme/model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/train_flags.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.module->parameters()) count += parameter.numel();
  return count;
}

TEST(Models, LeNetHasTheClassicNumberOfParameters) {
  EXPECT_EQ(count_parameters(make_model("lenet", {1, 28, 28}, 10)), 61706);
}

TEST(Models, EachGivesOneRowOfClassesPerSample) {
  for (const std::string& name : model_names()) {
    const Model model = make_model(name, {1, 28, 28}, 7);
    EXPECT_EQ(model.forward(torch::zeros({5, 1, 28, 28})).sizes(), (std::vector<std::int64_t>{5, 7})) << name;
    EXPECT_EQ(model.forward(torch::zeros({1, 1, 28, 28})).sizes(), (std::vector<std::int64_t>{1, 7})) << name;
  }
}

TEST(Models, LeNetTakesColour) {
  const Model model = make_model("lenet", {3, 28, 28}, 10);
  EXPECT_EQ(model.forward(torch::zeros({2, 3, 28, 28})).sizes(), (std::vector<std::int64_t>{2, 10}));
}

TEST(Models, MlpTakesSamplesOfAnyShape) {
  EXPECT_EQ(make_model("mlp", {4}, 3).forward(torch::zeros({2, 4})).sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(count_parameters(make_model("mlp", {4}, 3)), (4 + 1) * 128 + (128 + 1) * 64 + (64 + 1) * 3);
}

TEST(Models, LeNetRefusesOtherShapes) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{784}, {28, 28}, {1, 32, 32}, {1, 28, 27}}) {
    EXPECT_FAILS(make_model("lenet", shape, 10), InvalidArgument, "channels x 28 x 28", "use mlp");
  }
}

TEST(Models, UnknownNameIsRefusedWithASuggestion) {
  EXPECT_FAILS(make_model("lennet", {1, 28, 28}, 10), InvalidArgument, "'lennet'", "did you mean 'lenet'");
}

TEST(Models, TheSameSeedGivesTheSameNet) {
  for (const std::string& name : model_names()) {
    torch::manual_seed(4);
    const auto first = make_model(name, {1, 28, 28}, 10).module->parameters();
    torch::manual_seed(4);
    const auto second = make_model(name, {1, 28, 28}, 10).module->parameters();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << name;
  }
}

TEST(Models, EveryParameterGetsAGradient) {
  for (const std::string& name : model_names()) {
    const Model model = make_model(name, {1, 28, 28}, 10);
    model.forward(torch::randn({8, 1, 28, 28})).pow(2).sum().backward();
    for (const auto& item : model.module->named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << name << " " << item.key();
      EXPECT_GT(item.value().grad().abs().sum().item<float>(), 0) << name << " " << item.key();
    }
  }
}

TEST(Models, CommandKnowsAllNames) { EXPECT_EQ(cli::known_models(), model_names()); }

}  // namespace
}  // namespace trireme
