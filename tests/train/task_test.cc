#include "trireme/task.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/task_rules.h"
#include "tests/support/expect_fails.h"
#include "tests/train/alone.h"
#include "train/check_task.h"

namespace trireme {
namespace {

using data::Role;
using data::Schema;

const Schema kLabelled{{.name = "x", .shape = {2}},
                       {.name = "y", .dtype = DType::kI64, .role = Role::kTarget, .classes = {3}}};
const Schema kQuantity{{.name = "x", .shape = {2}}, {.name = "y", .role = Role::kTarget}};
const Schema kTags{{.name = "x", .shape = {2}}, {.name = "tags", .shape = {2}, .role = Role::kTarget}};
const Schema kTokens{{.name = "tokens", .dtype = DType::kI32, .shape = {4}, .classes = {5}}};

/// Gives its input back, or nothing but zeros for a vocabulary of 5.
struct Echo : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x; }
};
struct Uniform : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& tokens) { return torch::zeros({tokens.size(0), tokens.size(1), 5}); }
};

double value(Outcome outcome, std::string_view name) {
  settle(outcome, Task{});
  return find_value(values_of(outcome.metrics), name);
}

TEST(Tasks, RegressionIsTheMeanSquareOverAllTargets) {
  const Schema schema{{.name = "x", .shape = {2}},
                      {.name = "left", .role = Role::kTarget},
                      {.name = "right", .dtype = DType::kF64, .role = Role::kTarget}};
  const Batch batch(schema, {torch::tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}), torch::tensor({1.0f, 1.0f}),
                             torch::tensor({2.0, 8.0}, torch::kFloat64)});
  const Outcome outcome = regression().compute(Model(std::make_shared<Echo>()), batch);
  EXPECT_FLOAT_EQ(outcome.loss.item<float>(), (4.0f + 16.0f) / 4);
  EXPECT_DOUBLE_EQ(value(outcome, "rmse"), std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(value(outcome, "mae"), 6.0 / 4);
}

TEST(Tasks, MultiLabelCountsLabelsAndWholeSamples) {
  const Batch batch(kTags, {torch::tensor({{5.0f, -5.0f}, {5.0f, 5.0f}}), torch::tensor({{1.0f, 0.0f}, {1.0f, 0.0f}})});
  const Outcome outcome = multi_label().compute(Model(std::make_shared<Echo>()), batch);
  EXPECT_DOUBLE_EQ(value(outcome, "accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(value(outcome, "exact_accuracy"), 0.5);
}

TEST(Tasks, LanguageModelPredictsTheNextToken) {
  const Batch batch(kTokens, {torch::tensor({{0, 1, 2, 3}, {4, 3, 2, 1}}, torch::kInt32)});
  const Outcome outcome = language_model().compute(Model(std::make_shared<Uniform>()), batch);
  EXPECT_NEAR(outcome.loss.item<double>(), std::log(5.0), 1e-6);
  EXPECT_NEAR(value(outcome, "bits_per_token"), std::log2(5.0), 1e-6);
  EXPECT_NEAR(value(outcome, "perplexity"), 5, 1e-5);
}

TEST(Tasks, AutoencoderGivesItsInputBack) {
  const Schema schema{{.name = "x", .shape = {2}}};
  const Batch batch(schema, {torch::randn({4, 2})});
  EXPECT_EQ(autoencoder().compute(Model(std::make_shared<Echo>()), batch).loss.item<float>(), 0);
}

TEST(Tasks, TheOneThatFitsIsFound) {
  EXPECT_EQ(task_for(kLabelled), "classification");
  EXPECT_EQ(task_for(kQuantity), "regression");
  EXPECT_EQ(task_for(kTokens), "language-model");
  EXPECT_EQ(task_for(Schema{{.name = "x", .shape = {2}}}), "autoencoder");
  for (const std::string& name : task_names()) EXPECT_EQ(make_task(name).name, name);
}

TEST(Tasks, RefuseSamplesByFieldAndSayWhatFits) {
  EXPECT_FAILS(data::outputs_for("classification", kQuantity), InvalidArgument, "'y'", "--task regression");
  EXPECT_FAILS(data::outputs_for("language-model", kLabelled), InvalidArgument, "'x'", "tokens");
  EXPECT_FAILS(data::outputs_for("classification", kTokens), InvalidArgument, "one target field", "have 0");
  EXPECT_FAILS(data::outputs_for("multi-label", kLabelled), InvalidArgument, "'y'", "--task classification");
  const Schema text{
      {.name = "x"},
      {.name = "city", .dtype = DType::kI64, .role = Role::kTarget, .classes = {2}, .class_names = {"a", "b"}}};
  EXPECT_FAILS(data::outputs_for("regression", text), InvalidArgument, "'city'", "text", "--task classification");
  EXPECT_FAILS(data::outputs_for("clasification", kLabelled), InvalidArgument, "did you mean 'classification'");
}

TEST(Tasks, AFunctionOfABatchIsOne) {
  AloneJob job;
  struct Pair : torch::nn::Module {
    torch::nn::Linear left = register_module("left", torch::nn::Linear(1, 1));
    torch::nn::Linear right = register_module("right", torch::nn::Linear(1, 1));
  };
  const auto net = std::make_shared<Pair>();
  std::vector<float> a;
  std::vector<float> b;
  for (int i = 0; i < 100; ++i) {
    a.push_back(static_cast<float>(i) / 100);
    b.push_back(static_cast<float>(100 - i) / 100);
  }
  const auto pairs = data::in_memory("pairs", {data::input("a", a, {1}), data::input("b", b, {1})});
  const auto apart = [net](const Batch& batch) {
    const torch::Tensor distance = (net->left(batch["a"]) - net->right(batch["b"])).square();
    return Outcome{
        .loss = distance.mean(),
        .metrics = {{.name = "distance", .sum = distance.sum().item<double>(), .count = 0.0 + batch.size()}}};
  };
  const TrainResult result =
      Trainer(*job, net, {.batch = 20, .epochs = 30, .lr = 0.05, .task = apart}).fit(pairs, pairs);
  EXPECT_LT(result.test->metric("distance"), 0.01);
  EXPECT_NEAR(result.test->metric("distance"), result.test->loss, 1e-6);
  EXPECT_EQ(result.json().at("test_distance"), result.test->metric("distance"));
}

TEST(Tasks, WhatTheyGiveIsChecked) {
  AloneJob job;
  const auto fit = [&](Task task) {
    Trainer(*job, make_linear(), {.batch = 20, .steps = 2, .task = std::move(task)}).fit(make_points(100));
  };
  EXPECT_FAILS(fit([](const Batch& batch) { return batch["features"]; }), InvalidArgument, "loss of 40 numbers");
  AloneJob another;
  EXPECT_FAILS(Trainer(*another, make_linear(),
                       {.batch = 20,
                        .steps = 2,
                        .task =
                            [](const Batch& batch) {
                              return Outcome{.loss = batch["features"].mean(), .metrics = {{.name = "step"}}};
                            }})
                   .fit(make_points(100)),
               InvalidArgument, "metric named 'step'");
}

TEST(Trainer, EvaluatesOnSeveralSets) {
  AloneJob job;
  const TrainResult result = Trainer(*job, make_linear(), {.batch = 20, .epochs = 2, .lr = 0.1})
                                 .fit(make_points(100), make_points(40, 2), {{"later", make_points(60, 3)}});
  ASSERT_EQ(result.others.size(), 1u);
  EXPECT_EQ(result.others[0].set, "later");
  EXPECT_GT(result.json().at("later_accuracy"), 0.9);
  EXPECT_GT(result.json().at("test_accuracy"), 0.9);
  AloneJob another;
  const auto other = data::in_memory("other", {data::input<float>("x", {1, 2}, {1})});
  EXPECT_FAILS(Trainer(*another, make_linear(), {}).fit(make_points(100), other), InvalidArgument, "set 'test'", "x 1");
}

}  // namespace
}  // namespace trireme
