#include "trireme/layers.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include "base/error.h"
#include "models/functions.h"
#include "models/gpt.h"
#include "models/lane_seed.h"
#include "models/resnet.h"
#include "models/weight_gradients.h"
#include "tests/support/expect_fails.h"

namespace trireme {
namespace {

std::shared_ptr<const LayerList> small_gpt(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return std::make_shared<const LayerList>(
      models::gpt({.layers = 3, .heads = 2, .width = 8, .context = 6, .vocabulary = 11, .dropout = 0.3}));
}

torch::Tensor tokens() { return torch::arange(12).reshape({2, 6}) % 11; }

Layer linear_layer(const std::string& name) {
  return {.name = name, .make = [name](torch::nn::Module& root, const LayerPlace&) {
            auto fc = register_at(root, name, torch::nn::Linear(3, 3));
            return on_x([fc](const torch::Tensor& x) mutable { return fc(x); });
          }};
}

TEST(Layers, InitialValuesDoNotDependOnWhoMakesALayer) {
  const auto list = small_gpt();
  const Model whole = whole_model(list);
  const auto wanted = whole.module->named_parameters();
  std::size_t found = 0;
  for (const LayerRange range : {LayerRange{0, 2}, LayerRange{2, 3}, LayerRange{3, 5}}) {
    torch::manual_seed(range.begin + 77);  // whatever was drawn before
    const MadeLayers part(list, {range});
    for (const auto& item : part.module()->named_parameters()) {
      EXPECT_TRUE(torch::equal(item.value(), wanted[item.key()])) << item.key();
      ++found;
    }
  }
  EXPECT_EQ(found, wanted.size() + 1) << "every parameter once, but the tied one in two places";
}

TEST(Layers, WhatIsDrawnAfterwardsDoesNotDependOnWhatWasMade) {
  const auto list = small_gpt();
  const MadeLayers part(list, {{1, 2}});
  const torch::Tensor after_part = torch::rand({4});
  whole_model(list);
  EXPECT_TRUE(torch::equal(torch::rand({4}), after_part));
}

TEST(Layers, AnotherSeedGivesOtherValues) {
  const auto one = whole_model(small_gpt(1)).module->parameters();
  EXPECT_TRUE(torch::equal(one[0], whole_model(small_gpt(1)).module->parameters()[0]));
  EXPECT_FALSE(torch::equal(one[0], whole_model(small_gpt(2)).module->parameters()[0]));
}

TEST(Layers, ATiedParameterKnowsAllItsLayers) {
  const auto list = small_gpt();
  const MadeLayers head(list, {{4, 5}});
  EXPECT_EQ(head.users().at("wte.weight"), (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(head.users().at("ln_f.weight"), (std::vector<std::size_t>{4}));
  EXPECT_EQ(head.module()->named_parameters().keys(),
            (std::vector<std::string>{"wte.weight", "ln_f.weight", "ln_f.bias"}));
}

TEST(Layers, PartsOneAfterTheOtherGiveTheOutputOfTheWhole_WithDropout) {
  const auto list = small_gpt();
  const Model whole = whole_model(list);
  const MadeLayers front(list, {{0, 2}});
  const MadeLayers back(list, {{2, 5}});
  const LaneSeed lane(5);
  const torch::Tensor wanted = whole.forward(tokens());
  torch::rand({3});
  const Activations between = front.forward({0, 2}, list->activations_of({tokens()}));
  torch::rand({5});
  EXPECT_TRUE(torch::equal(back.forward({2, 5}, between).at("x"), wanted));
  const LaneSeed other(6);
  EXPECT_FALSE(torch::equal(whole.forward(tokens()), wanted));
}

TEST(Layers, WeightsGradientsLeftForLaterHaveTheSameBits) {
  const auto image = torch::randn({2, 3, 8, 8});
  const Model net = whole_model(models::resnet({.blocks = {1, 1}, .width = 4, .classes = 5}));
  const auto target = torch::tensor({1, 4});
  const auto loss = [&] { return torch::nn::functional::cross_entropy(net.forward(image), target); };
  loss().backward();
  std::map<const void*, torch::Tensor> wanted;
  for (torch::Tensor& parameter : net.module->parameters()) {
    wanted[parameter.unsafeGetTensorImpl()] = parameter.grad().clone();
    parameter.mutable_grad().reset();
  }
  const auto later = c10::make_intrusive<models::WeightGradients>();
  {
    const models::WeightGradients::Scope scope(later);
    const torch::Tensor value = loss();
    later->defer(true);
    value.backward();
  }
  std::size_t left = 0;
  later->run([&](const torch::Tensor& parameter, const torch::Tensor& gradient) {
    EXPECT_FALSE(parameter.grad().defined());
    EXPECT_TRUE(torch::equal(gradient, wanted[parameter.unsafeGetTensorImpl()]));
    wanted.erase(parameter.unsafeGetTensorImpl());
    ++left;
  });
  EXPECT_EQ(left, 8u) << "six convolutions' weights; weight and bias of the head";
  EXPECT_TRUE(later->empty());
  for (const torch::Tensor& parameter : net.module->parameters()) {  // norms are not left
    const auto found = wanted.find(parameter.unsafeGetTensorImpl());
    if (found != wanted.end()) {
      EXPECT_TRUE(torch::equal(parameter.grad(), found->second));
    }
  }
}

TEST(Layers, FunctionsHaveTheGradientsOfTorchs) {
  const auto close = [](const torch::Tensor& a, const torch::Tensor& b) { return torch::allclose(a, b, 1e-4, 1e-5); };
  const auto compare = [&](const std::vector<torch::Tensor>& leaves, const torch::Tensor& ours,
                           const torch::Tensor& theirs) {
    EXPECT_TRUE(close(ours, theirs));
    const torch::Tensor weights = torch::randn_like(ours);
    const auto a = torch::autograd::grad({(ours * weights).sum()}, leaves);
    const auto b = torch::autograd::grad({(theirs * weights).sum()}, leaves);
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(close(a[i], b[i])) << i;
  };
  const auto leaf = [](std::vector<std::int64_t> shape) { return torch::randn(shape).requires_grad_(); };
  const auto x = leaf({2, 3, 4}), w = leaf({5, 4}), b = leaf({5});
  compare({x, w, b}, models::linear(x, w, b), torch::linear(x, w, b));
  compare({x, w}, models::linear(x, w), torch::linear(x, w));
  const auto image = leaf({2, 3, 9, 9}), filter = leaf({4, 3, 3, 3}), shift = leaf({4});
  compare({image, filter, shift}, models::conv2d(image, filter, shift, {.stride = 2, .padding = 1}),
          torch::conv2d(image, filter, shift, 2, 1));
  const auto table = leaf({7, 2});
  const auto rows = torch::tensor({{0, 6, 3}, {3, 3, 1}});
  compare({table}, models::embedding(table, rows), torch::embedding(table, rows));
}

TEST(Layers, OnesOwnSequentialCanBeDivided) {
  const torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)),
                                  torch::nn::Linear(3, 2));
  const auto list = std::make_shared<const LayerList>(layers_of(net));
  ASSERT_EQ(list->size(), 3u);
  const MadeLayers front(list, {{0, 2}});
  const MadeLayers back(list, {{2, 3}});
  EXPECT_EQ(back.module()->named_parameters().keys(), (std::vector<std::string>{"2.weight", "2.bias"}));
  const torch::Tensor x = torch::randn({5, 4});
  const torch::Tensor y = back.forward({2, 3}, front.forward({0, 2}, {{"x", x}})).at("x");
  EXPECT_TRUE(torch::equal(y, torch::nn::Sequential(net)->forward(x)));
  y.sum().backward();
}

TEST(Layers, SkipConnectionsArePassedOnByName) {
  const Layer keep{.name = "keep", .make = [](torch::nn::Module&, const LayerPlace&) -> LayerRun {
                     return [](Activations a) {
                       a["skip"] = a["x"];
                       return a;
                     };
                   }};
  const Layer join{.name = "join", .make = [](torch::nn::Module&, const LayerPlace&) -> LayerRun {
                     return [](const Activations& a) { return Activations{{"x", a.at("x") + a.at("skip")}}; };
                   }};
  const Model net = whole_model(LayerList({keep, linear_layer("a"), linear_layer("b"), join}));
  EXPECT_EQ(net.forward(torch::ones({1, 3})).sizes(), (std::vector<std::int64_t>{1, 3}));
}

TEST(Layers, ListsThatMakeNoSenseAreRefused) {
  EXPECT_FAILS(LayerList({}), InvalidArgument, "at least one layer");
  EXPECT_FAILS(LayerList({linear_layer("a"), linear_layer("a")}), InvalidArgument, "'a' is there twice");
  const auto make = [](torch::nn::Module&, const LayerPlace&) {};
  const std::vector layers{linear_layer("a"), linear_layer("b")};
  EXPECT_FAILS(LayerList(layers, {{.parameter = "w", .layers = {"b", "a"}, .make = make}}), InvalidArgument, "'w'",
               "in the order");
  EXPECT_FAILS(LayerList(layers, {{.parameter = "w", .layers = {"a", "c"}, .make = make}}), InvalidArgument,
               "no layer 'c'");
  const auto untrue = std::make_shared<const LayerList>(
      layers, std::vector<Tie>{{.parameter = "w", .layers = {"a", "b"}, .make = make}});
  EXPECT_FAILS(whole_model(untrue), InvalidArgument, "no parameter 'w'");
}

TEST(Layers, ThoseOfAModelByNameAreFoundWithoutMakingIt) {
  const data::Schema samples{{.name = "tokens", .dtype = DType::kI32, .shape = {7}, .classes = {11}}};
  const auto list = make_layers("gpt-tiny", samples, 11);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ((*list)[0].name, "embedding");
  EXPECT_EQ(list->size(), 4u);
  EXPECT_EQ(make_layers("lstm", samples, 11), nullptr) << "one that cannot be divided";
  EXPECT_NE(make_model("gpt-tiny", samples, 11).layers, nullptr);
  register_layers("own-layers", [](const data::Schema&, std::int64_t) { return LayerList({linear_layer("a")}); });
  EXPECT_EQ(make_layers("own-layers", samples, 3)->size(), 1u);
}

}  // namespace
}  // namespace trireme
