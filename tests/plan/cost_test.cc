#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/cost/collective_time.h"
#include "plan/cost/memory.h"
#include "plan/cost/model_cost.h"
#include "plan/cost/split_layers.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

TEST(ModelCost, ParametersAreThoseOfThePublishedModels) {
  EXPECT_EQ(model_cost("gpt2").parameters(), 124'439'808u);
  EXPECT_EQ(model_cost("gpt2-medium").parameters(), 354'823'168u);
  EXPECT_EQ(model_cost("gpt2-large").parameters(), 774'030'080u);
  EXPECT_EQ(model_cost("gpt2-xl").parameters(), 1'557'611'200u);
  EXPECT_EQ(model_cost("resnet18").parameters(), 11'689'512u);
  EXPECT_EQ(model_cost("resnet50").parameters(), 25'557'032u);
  EXPECT_EQ(model_cost("resnet20").parameters(), 272'474u);
  EXPECT_EQ(model_cost("lenet").parameters(), 61'706u);
  EXPECT_EQ(model_cost("mlp").parameters(), 784u * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
}

TEST(ModelCost, FlopsAreThoseOfTheLiterature) {
  EXPECT_NEAR(model_cost("resnet50").forward_flops() / 2, 4.09e9, 0.05e9);  // 4.1 G multiply-adds
  EXPECT_NEAR(model_cost("resnet18").forward_flops() / 2, 1.81e9, 0.02e9);
  EXPECT_NEAR(3 * model_cost("gpt2").forward_flops() / 1024, 860e6, 10e6);  // forward and backward, per token
}

TEST(ModelCost, ActivationsOfABlockAreSixteenWidths) {  // Korthikanti et al. 2022: 34 bytes in fp16, 2 of them dropout
  const ModelCost model = model_cost("gpt2", {.length = 512});
  const LayerCost& block = model.layers[1];
  EXPECT_DOUBLE_EQ(block.input + block.kept, 16.0 * 512 * 768);
  const LayerCost plain = model_cost("gpt2", {.length = 512, .fused_attention = false}).layers[1];
  EXPECT_DOUBLE_EQ(plain.kept - block.kept, 12.0 * 512 * 512);
}

TEST(ModelCost, EveryModelIsAListOfLayersThatFitTogether) {
  for (const std::string& name : planned_models()) {
    const ModelCost model = model_cost(name);
    EXPECT_EQ(model.name, name);
    for (std::size_t i = 0; i + 1 < model.layers.size(); ++i) {
      EXPECT_DOUBLE_EQ(model.layers[i].output, model.layers[i + 1].input) << name << " " << model.layers[i].name;
      EXPECT_GE(model.layers[i].parameters, model.layers[i].split_parameters) << name;
    }
  }
}

TEST(ModelCost, WhatDoesNotFitIsRefused) {
  EXPECT_FAILS(model_cost("gpt3"), InvalidArgument, "no model 'gpt3'", "did you mean 'gpt2'?");
  EXPECT_FAILS(model_cost("wide-deep"), InvalidArgument, "columns of its table");
  EXPECT_FAILS(model_cost("gpt2", {.shape = {3, 32, 32}}), InvalidArgument, "takes tokens");
  EXPECT_FAILS(model_cost("resnet18", {.length = 7}), InvalidArgument, "takes images");
  EXPECT_FAILS(model_cost("resnet18", {.shape = {3, 32}}), InvalidArgument, "channels x rows x columns");
  EXPECT_FAILS(model_cost("lenet", {.shape = {1, 32, 32}}), InvalidArgument, "28 x 28");
  EXPECT_FAILS(model_cost("vit-tiny", {.shape = {3, 30, 30}}), InvalidArgument, "patches");
  EXPECT_FAILS(model_cost("mlp", {.shape = {1u << 30, 1u << 30}}), InvalidArgument, "from 1 to 1e9");
  EXPECT_FAILS(model_cost("gpt2", {.length = 1u << 30}), InvalidArgument, "at most");
}

TEST(StateBytes, FollowTheFormulasOfZero) {
  const auto per_parameter = [](std::uint32_t zero, double n, Precision precision) {
    return state_bytes(1, {.precision = precision, .zero = zero, .shards = static_cast<std::uint32_t>(n)}).total();
  };
  for (const double n : {2.0, 4.0, 8.0, 64.0}) {
    EXPECT_DOUBLE_EQ(per_parameter(0, n, Precision::kFp32), 16);
    EXPECT_DOUBLE_EQ(per_parameter(1, n, Precision::kFp32), 8 + 8 / n);
    EXPECT_DOUBLE_EQ(per_parameter(2, n, Precision::kFp32), 4 + 12 / n);
    EXPECT_DOUBLE_EQ(per_parameter(3, n, Precision::kFp32), 16 / n);
    EXPECT_DOUBLE_EQ(per_parameter(0, n, Precision::kBf16), 18);
    EXPECT_DOUBLE_EQ(per_parameter(2, n, Precision::kBf16), 2 + 16 / n);
    EXPECT_DOUBLE_EQ(per_parameter(3, n, Precision::kBf16), 18 / n);
  }
  EXPECT_DOUBLE_EQ(state_bytes(1, {.optimizer_values = 0}).total(), 8);  // plain SGD
  // DeepSpeed's example of 2851M parameters on 8 ranks: 6.10 GiB, of which 0.12 for the largest layer.
  const StateOptions three{.precision = Precision::kBf16, .zero = 3, .shards = 8};
  EXPECT_NEAR(state_bytes(2851e6, three).total() / (1u << 30), 5.97, 0.01);
}

TEST(StateBytes, GradientsOfManyMicroBatchesTakeABufferPerLevelOfTheTree) {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected = {{1, 1}, {2, 2}, {3, 2}, {4, 3},
                                                                         {7, 3}, {8, 4}, {64, 7}};
  for (const auto& [micro_batches, buffers] : expected) EXPECT_EQ(summation_buffers(micro_batches), buffers);
  EXPECT_EQ(summation_buffers(64, /*any_order=*/true), 1u);
  EXPECT_DOUBLE_EQ(state_bytes(1, {.gradient_buffers = 3}).gradients, 12);
}

TEST(StateBytes, ZeroDividesNoGradientsThatAreSummedFirst) {
  // zero:2 on two workers with 4 lanes each: whole gradients, and two more buffers for the lanes.
  const StateOptions options{.zero = 2, .shards = 2, .gradient_buffers = 3, .whole_gradients = true};
  EXPECT_DOUBLE_EQ(state_bytes(1, options).gradients, 12);
  EXPECT_DOUBLE_EQ(state_bytes(1, options).optimizer, 4);
}

TEST(WaitingSums, AreThoseOfSubtreesThatAreCompleteButTheFirst) {
  const std::vector<std::uint32_t> of_eight = {0, 0, 0, 1, 0, 1, 1, 2, 0};  // by lanes that are done
  for (std::uint32_t done = 0; done <= 8; ++done) EXPECT_EQ(waiting_sums(8, done), of_eight[done]) << done;
  const std::vector<std::uint32_t> of_seven = {0, 0, 0, 1, 0, 1, 1, 0};  // 4, then 2 and 1
  for (std::uint32_t done = 0; done <= 7; ++done) EXPECT_EQ(waiting_sums(7, done), of_seven[done]) << done;
  EXPECT_EQ(waiting_sums(64, 63), 5u);
  EXPECT_EQ(waiting_sums(1, 1), 0u);
}

TEST(GradientBuckets, AreFilledBackwardUpToFourMegabytes) {
  constexpr std::uint64_t kFull = 1u << 20;
  EXPECT_TRUE(gradient_buckets({{kFull, kFull, kFull}}).all_at_once());
  const GradientBuckets many = gradient_buckets({{5 * kFull, kFull / 2, kFull / 2, kFull, 2 * kFull}});
  EXPECT_EQ(many.count, 4u);  // from the end: 2, 1, a half and a half, 5; the fourth takes the first one's place
  EXPECT_FALSE(many.all_at_once());
  EXPECT_DOUBLE_EQ(many.places, 7.0 * kFull);
  EXPECT_EQ(gradient_buckets({{10}, {10}, {10}, {10}}).count, 4u);  // a bucket holds those of one layer
}

TEST(ModelCost, TensorsAreAllParameters) {
  for (const std::string& name : planned_models()) {
    for (const LayerCost& layer : model_cost(name).layers) {
      EXPECT_EQ(std::accumulate(layer.tensors.begin(), layer.tensors.end(), std::uint64_t{0}), layer.parameters)
          << name << " " << layer.name;
    }
  }
}

TEST(CollectiveTime, FollowsTheFormulas) {
  const Link link{1e9, 1e-3};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(link, 4, 1e9), 2 * (0.75 + 1e-3));
  EXPECT_DOUBLE_EQ(all_reduce_seconds(link, 4, 1e9, CollectiveAlgorithm::kRing), 2 * (0.75 + 3e-3));
  EXPECT_EQ(all_reduce_seconds(link, 1, 1e9), 0);
  EXPECT_EQ(all_reduce_seconds(link, 4, 0), 0);
  EXPECT_DOUBLE_EQ(link.seconds(5e8), 0.501);
}

TEST(CollectiveTime, AcrossHostsSendsASliceOfEachRankOverTheNetwork) {
  const Links links{.host = {10e9, 1e-6}, .network = {1e9, 1e-3}};
  const GroupSpan within{8, 1, 8};
  const GroupSpan spread{8, 8, 1};
  const GroupSpan both{8, 2, 4};
  EXPECT_DOUBLE_EQ(all_reduce_seconds(links, within, 1e9), all_reduce_seconds(links.host, 8, 1e9));
  EXPECT_DOUBLE_EQ(all_reduce_seconds(links, spread, 1e9), all_reduce_seconds(links.network, 8, 1e9));
  EXPECT_DOUBLE_EQ(all_reduce_seconds(links, both, 1e9),
                   all_reduce_seconds(links.host, 4, 1e9) + all_reduce_seconds(links.network, 2, 0.25e9));
}

std::vector<std::size_t> lengths(const std::vector<std::size_t>& begins, std::size_t layers) {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    result.push_back((i + 1 < begins.size() ? begins[i + 1] : layers) - begins[i]);
  }
  return result;
}

TEST(SplitLayers, LosesNoLayerWhereTheNumbersDoNotDivide) {
  const std::vector<double> equal(30, 1);
  EXPECT_EQ(lengths(split_layers(equal, 4), 30), (std::vector<std::size_t>{8, 8, 7, 7}));
  for (std::size_t stages = 1; stages <= 30; ++stages) {
    const auto parts = lengths(split_layers(equal, stages), 30);
    EXPECT_EQ(parts.size(), stages);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::size_t{0}), 30u);
  }
}

TEST(SplitLayers, BalancesUnequalCosts) {
  EXPECT_EQ(lengths(split_layers(std::vector<double>{1, 1, 1, 1, 10}, 3), 5), (std::vector<std::size_t>{2, 2, 1}));
  EXPECT_EQ(lengths(split_layers(std::vector<double>{10, 1, 1, 1, 1}, 3), 5), (std::vector<std::size_t>{1, 2, 2}));
  EXPECT_EQ(lengths(split_layers(std::vector<double>{0, 3, 3, 3, 4}, 2), 5), (std::vector<std::size_t>{3, 2}));
}

TEST(SplitLayers, RefusesMoreStagesThanLayers) {
  const std::vector<double> two = {1, 1};
  EXPECT_FAILS(split_layers(two, 3), InvalidArgument, "2 layers", "3 stages", "at most 2");
  EXPECT_FAILS(split_layers(two, 0), InvalidArgument, "0 stages");
  EXPECT_FAILS(split_layers(std::vector<double>{1, -1}, 1), InvalidArgument, "layer 1 costs -1");
}

}  // namespace
}  // namespace trireme::plan
