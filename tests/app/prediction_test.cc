#include "app/prediction.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::app {
namespace {

const data::Schema kKinds{{.name = "x", .shape = {2}},
                          {.name = "kind",
                           .dtype = DType::kI64,
                           .role = data::Role::kTarget,
                           .classes = {2},
                           .class_names = {"a \"b\"", "c,d"}}};
const data::Schema kQuantities{{.name = "x", .shape = {2}},
                               {.name = "price", .role = data::Role::kTarget},
                               {.name = "place", .shape = {2}, .role = data::Role::kTarget}};

/// Gives its input, as often as asked for.
Model echo(std::int64_t times = 1) {
  return {std::make_shared<torch::nn::Module>(),
          [times](const std::vector<torch::Tensor>& x) { return torch::cat(std::vector(times, x[0]), 1); }};
}

Batch batch_of(const data::Schema& schema, const torch::Tensor& x) {
  std::vector<torch::Tensor> tensors{x};
  while (tensors.size() < schema.size()) tensors.push_back(torch::zeros({x.size(0)}));
  return {schema, tensors};
}

TEST(Prediction, Classes_AreNamedAndQuotedAsCsvWants) {
  const Prediction prediction("classification", kKinds, false);
  const torch::Tensor rows = prediction.of(echo(), batch_of(kKinds, torch::tensor({{1.0f, 0.0f}, {0.0f, 1.0f}})));
  EXPECT_EQ(prediction.header(rows), "kind\n");
  EXPECT_EQ(prediction.as_text(rows), "\"a \"\"b\"\"\"\n\"c,d\"\n");
  EXPECT_EQ(prediction.numpy_type(), "<i8");
  EXPECT_EQ(prediction.as_numbers(rows).size(), 2 * sizeof(std::int64_t));
}

TEST(Prediction, Probabilities_SumToOne) {
  const Prediction prediction("classification", kKinds, true);
  const torch::Tensor rows = prediction.of(echo(), batch_of(kKinds, torch::tensor({{0.0f, 0.0f}})));
  EXPECT_EQ(prediction.header(rows), "\"a \"\"b\"\"\",\"c,d\"\n");
  EXPECT_EQ(prediction.as_text(rows), "0.5,0.5\n");
  EXPECT_FAILS(Prediction("regression", kQuantities, true), InvalidArgument, "--probabilities", "regression");
}

TEST(Prediction, Quantities_HaveTheNamesOfTheTargets) {
  const Prediction prediction("regression", kQuantities, false);
  const torch::Tensor rows = torch::tensor({{1.5f, 2.0f, -3.0f}});
  EXPECT_EQ(prediction.header(rows), "price,place_0,place_1\n");
  EXPECT_EQ(prediction.as_text(rows), "1.5,2,-3\n");
  EXPECT_FAILS(prediction.of(Model(std::make_shared<torch::nn::Module>(), nullptr), batch_of(kQuantities, rows)),
               InvalidArgument, "no forward");
}

TEST(Prediction, TaskOfOnesOwn_GivesTheOutputs) {
  const Prediction prediction("mine", kQuantities, false);
  const torch::Tensor rows = prediction.of(echo(2), batch_of(kQuantities, torch::tensor({{1.0f, 2.0f}})));
  EXPECT_EQ(prediction.header(rows), "output_0,output_1,output_2,output_3\n");
}

}  // namespace
}  // namespace trireme::app
