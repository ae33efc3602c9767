#include "trireme/model.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cli/model/model_rules.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.module->parameters()) count += parameter.numel();
  return count;
}

data::Schema images(std::vector<std::int64_t> shape) {
  return {{.name = "image", .shape = std::move(shape)},
          {.name = "label", .dtype = DType::kI64, .role = data::Role::kTarget, .classes = {7}}};
}

data::Schema tokens(std::int64_t length, std::int64_t vocabulary) {
  return {{.name = "tokens", .dtype = DType::kI32, .shape = {length}, .classes = {vocabulary}}};
}

data::Schema table() {
  return {{.name = "features", .shape = {3}},
          {.name = "categories", .dtype = DType::kI64, .shape = {2}, .classes = {5, 40}},
          {.name = "delay", .role = data::Role::kTarget}};
}

/// A model with a batch that fits it; the largest are left out.
struct Fitting {
  std::string name;
  data::Schema samples;
  std::vector<torch::Tensor> inputs;
  std::vector<std::int64_t> result;
};

std::vector<Fitting> all_models() {
  const auto words = torch::randint(0, 11, {3, 8}, torch::kInt32);
  std::vector<Fitting> all;
  for (const char* name : {"lenet", "mlp", "resnet20", "resnet18", "vit-tiny"}) {
    all.push_back({name, images({1, 28, 28}), {torch::randn({3, 1, 28, 28})}, {3, 7}});
  }
  all.push_back({"resnet50", images({3, 96, 96}), {torch::randn({3, 3, 96, 96})}, {3, 7}});
  for (const char* name : {"gpt-tiny", "gpt-10m", "lstm"}) all.push_back({name, tokens(9, 11), {words}, {3, 8, 11}});
  all.push_back(
      {"wide-deep", table(), {torch::randn({3, 3}), torch::tensor({{0, 39}, {4, 0}, {2, 7}}, torch::kInt64)}, {3, 1}});
  return all;
}

std::int64_t outputs_of(const Fitting& model) { return model.result.back(); }

TEST(Models, HaveTheirPublishedNumbersOfParameters) {
  EXPECT_EQ(count_parameters(make_model("lenet", images({1, 28, 28}), 10)), 61706);
  EXPECT_EQ(count_parameters(make_model("resnet20", images({3, 32, 32}), 10)), 272474);
  EXPECT_EQ(count_parameters(make_model("resnet50", images({3, 224, 224}), 1000)), 25557032);
  EXPECT_EQ(count_parameters(make_model("gpt2", tokens(1025, 50257), 50257)), 124439808);
}

TEST(Models, EachGivesARowOfOutputsPerSample) {
  for (const Fitting& fitting : all_models()) {
    const Model model = make_model(fitting.name, fitting.samples, outputs_of(fitting));
    EXPECT_EQ(model.forward(fitting.inputs).sizes(), fitting.result) << fitting.name;
  }
}

TEST(Models, LeNetTakesColour) {
  const Model model = make_model("lenet", images({3, 28, 28}), 10);
  EXPECT_EQ(model.forward(torch::zeros({2, 3, 28, 28})).sizes(), (std::vector<std::int64_t>{2, 10}));
}

TEST(Models, MlpTakesSamplesOfAnyShape) {
  EXPECT_EQ(make_model("mlp", images({4}), 3).forward(torch::zeros({2, 4})).sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(count_parameters(make_model("mlp", images({4}), 3)), (4 + 1) * 128 + (128 + 1) * 64 + (64 + 1) * 3);
}

TEST(Models, RefuseSamplesThatDoNotFit) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{784}, {28, 28}, {1, 32, 32}, {1, 28, 27}}) {
    EXPECT_FAILS(make_model("lenet", images(shape), 10), InvalidArgument, "channels x 28 x 28", "use mlp");
  }
  EXPECT_FAILS(make_model("resnet20", images({784}), 10), InvalidArgument, "channels x rows x columns", "'image'");
  EXPECT_FAILS(make_model("gpt-tiny", images({784}), 10), InvalidArgument, "needs tokens", "'image'");
  EXPECT_FAILS(make_model("vit-tiny", images({1, 30, 30}), 10), InvalidArgument, "30x30", "patches");
  EXPECT_FAILS(make_model("mlp", table(), 1), InvalidArgument, "one input", "have 2");
  EXPECT_FAILS(make_model("gpt-tiny", tokens(9, 11), 11).forward(torch::zeros({1, 9}, torch::kInt32)), InvalidArgument,
               "9 tokens at once", "at most 8");
}

TEST(Models, TheCommandRefusesTheSameBeforeItStarts) {
  EXPECT_FAILS(cli::check_model_takes("lenet", images({1, 32, 32})), InvalidArgument, "channels x 28 x 28",
               "'image' is image 1x32x32", "resnet20");
  EXPECT_FAILS(cli::check_model_takes("gpt-tiny", images({784})), InvalidArgument, "needs tokens", "use mlp");
  EXPECT_FAILS(cli::check_model_takes("mlp", table()), InvalidArgument, "have 2", "use wide-deep");
  for (const Fitting& fitting : all_models()) EXPECT_NO_THROW(cli::check_model_takes(fitting.name, fitting.samples));
}

TEST(Models, UnknownNameIsRefusedWithASuggestion) {
  EXPECT_FAILS(make_model("lennet", images({1, 28, 28}), 10), InvalidArgument, "'lennet'", "did you mean 'lenet'");
}

TEST(Models, OnesOwnAreKnownByName) {
  register_model("mine",
                 [](const data::Schema&, std::int64_t outputs) -> Model { return torch::nn::Linear(2, outputs); });
  EXPECT_EQ(make_model("mine", images({2}), 3).forward(torch::zeros({1, 2})).sizes(),
            (std::vector<std::int64_t>{1, 3}));
  EXPECT_FAILS(register_model("lenet", nullptr), InvalidArgument, "'lenet' already");
}

TEST(Models, TheSameSeedGivesTheSameNet) {
  for (const Fitting& fitting : all_models()) {
    torch::manual_seed(4);
    const auto first = make_model(fitting.name, fitting.samples, outputs_of(fitting)).module->parameters();
    torch::manual_seed(4);
    const auto second = make_model(fitting.name, fitting.samples, outputs_of(fitting)).module->parameters();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << fitting.name;
  }
}

TEST(Models, EveryParameterGetsAGradient) {
  for (const Fitting& fitting : all_models()) {
    const Model model = make_model(fitting.name, fitting.samples, outputs_of(fitting));
    model.forward(fitting.inputs).pow(2).sum().backward();
    for (const auto& item : model.module->named_parameters()) {
      EXPECT_TRUE(item.value().grad().defined()) << fitting.name << " " << item.key();
    }
  }
}

TEST(Models, GptDoesNotSeeTheFuture) {
  const Model model = make_model("gpt-tiny", tokens(9, 11), 11);
  const torch::Tensor before = torch::randint(0, 11, {1, 8}, torch::kInt64);
  torch::Tensor after = before.clone();
  after[0][5] = (after[0][5] + 1) % 11;
  const torch::Tensor difference = (model.forward(before) - model.forward(after)).abs().amax({0, 2});
  EXPECT_EQ(difference.narrow(0, 0, 5).max().item<float>(), 0);
  EXPECT_GT(difference.narrow(0, 5, 3).min().item<float>(), 0);
}

TEST(Models, AreTheOnesThatTheCommandKnows) {
  std::vector<std::string> names = model_names();
  std::erase_if(names, [](const std::string& name) { return name == "mine" || name == "own-layers"; });  // of tests
  EXPECT_EQ(cli::known_models(), names);
}

}  // namespace
}  // namespace trireme
