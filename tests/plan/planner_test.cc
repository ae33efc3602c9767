#include "plan/planner.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

PlanRequest request_for(const std::string& model, std::uint32_t workers, double gigabytes) {
  return {.workload = {.model = model_cost(model), .batch = 8ull * workers},
          .hardware = {.workers = workers, .hosts = workers, .memory = gigabytes * 1e9, .flops = 1e14}};
}

TEST(Predict, AloneTakesTheFlopsAndHoldsSixteenBytesPerParameter) {
  const PlanRequest request = request_for("gpt2", 1, 100);
  const Prediction one = predict(request.workload, request.hardware, {});
  EXPECT_NEAR(one.step_seconds, 3 * 8 * request.workload.model.forward_flops() / 1e14, 1e-9);
  EXPECT_NEAR(one.efficiency, 1, 1e-9);
  EXPECT_DOUBLE_EQ(one.memory.state.total(), 16.0 * 124'439'808);
  EXPECT_EQ(one.bubble, 0);
  EXPECT_EQ(one.exposed_seconds, 0);
}

TEST(Predict, RecomputationTradesTimeForActivations) {
  const PlanRequest request = request_for("gpt2", 1, 100);
  const Prediction kept = predict(request.workload, request.hardware, {});
  const Prediction again = predict(request.workload, request.hardware, {.recompute = true});
  EXPECT_LT(again.memory.activations, kept.memory.activations / 2);
  double blocks = 0;  // the head is not computed again
  for (const LayerCost& layer : request.workload.model.layers) blocks += layer.recomputable ? layer.forward_flops : 0;
  EXPECT_NEAR(again.step_seconds / kept.step_seconds, 1 + blocks / request.workload.model.forward_flops() / 3, 1e-9);
}

TEST(Predict, ZeroShardsWhatItSays) {
  const PlanRequest request = request_for("gpt2", 8, 100);
  const auto state = [&](std::uint32_t zero) {
    return predict(request.workload, request.hardware, {.mesh = {.data = 8}, .zero = zero}).memory.state.total() /
           124'439'808;
  };
  EXPECT_DOUBLE_EQ(state(0), 16);
  EXPECT_DOUBLE_EQ(state(1), 9);
  EXPECT_DOUBLE_EQ(state(2), 5.5);
  EXPECT_DOUBLE_EQ(state(3), 2);
}

TEST(Predict, APipelineDividesParametersAndCopiesTheTiedOnes) {
  const PlanRequest request = request_for("gpt2", 4, 100);
  const Prediction pipe = predict(request.workload, request.hardware,
                                  {.mesh = {.pipe = 4}, .schedule = ScheduleKind::k1F1B, .micro_batches = 8});
  EXPECT_EQ(pipe.stages.size(), 4u);
  EXPECT_GT(pipe.bubble, 0.2);
  EXPECT_LT(pipe.memory.state.weights, 4 * 124.5e6 * 0.6);  // less than all
  EXPECT_GT(pipe.memory.state.weights, 4.0 * 50257 * 768);  // the embedding is on the last rank, too
}

TEST(Predict, TheVNeedsNoCopyOfTheTiedParameters) {
  const PlanRequest request = request_for("gpt2", 2, 100);
  const auto weights = [&](ScheduleKind kind) {
    const Arrangement arrangement{
        .mesh = {.pipe = 2}, .schedule = kind, .chunks = usual_chunks(kind), .micro_batches = 8};
    return predict(request.workload, request.hardware, arrangement).memory.state.weights;
  };
  EXPECT_GT(weights(ScheduleKind::kInterleaved), 4.0 * 50257 * 768);
  EXPECT_LT(weights(ScheduleKind::kZbV), 4 * 124.5e6);
}

TEST(Predict, WhatIsImpossibleIsRefusedWithTheNearest) {
  const PlanRequest request = request_for("gpt2-xl", 8, 24);
  const auto refused = [&](const Arrangement& arrangement, const std::vector<std::string>& words) {
    const auto reason = why_impossible(request.workload, request.hardware, arrangement);
    ASSERT_TRUE(reason);
    for (const std::string& word : words) EXPECT_THAT(*reason, ::testing::HasSubstr(word));
    EXPECT_FAILS(predict(request.workload, request.hardware, arrangement), InvalidArgument, words.front());
  };
  refused({.mesh = {.data = 4}}, {"has 4 ranks", "8 workers"});
  refused({.mesh = {.data = 2, .tensor = 4}}, {"25 attention heads", "tensor=5"});
  refused({.mesh = {.pipe = 8}, .schedule = ScheduleKind::kInterleaved, .chunks = 8, .micro_batches = 8},
          {"50 layers", "64 stages", "pipe=6"});
  refused({.mesh = {.data = 8}, .micro_batches = 3}, {"8 samples", "3 micro-batches"});
  refused({.mesh = {.pipe = 8}, .zero = 1, .micro_batches = 8}, {"ZeRO 1", "data=1"});
  refused({.mesh = {.data = 8}, .zero = 1, .shards = 3}, {"groups of 3", "data=8", "nearest is 2"});
}

TEST(Planner, RecommendsDataParallelismWhereItFits) {
  const Plan plan = make_plan(request_for("gpt2", 4, 80));
  ASSERT_TRUE(plan.fits());
  EXPECT_EQ(plan.best().arrangement, (Arrangement{.mesh = {.data = 4}}));
  EXPECT_TRUE(plan.knobs.empty());
  EXPECT_TRUE(std::ranges::all_of(plan.candidates, &Candidate::fits));
}

TEST(Planner, TheRecommendedFitsAndIsWithinTwoPercentOfTheFastest) {
  for (const double gigabytes : {12.0, 16.0, 24.0, 80.0}) {
    const Plan plan = make_plan(request_for("gpt2-xl", 16, gigabytes));
    ASSERT_TRUE(plan.fits()) << gigabytes;
    double fastest = plan.best().prediction.step_seconds;
    for (const Candidate& each : plan.candidates) fastest = std::min(fastest, each.prediction.step_seconds);
    EXPECT_LE(plan.best().prediction.memory.total(), gigabytes * 1e9);
    EXPECT_LE(plan.best().prediction.step_seconds, fastest * 1.02 + 1e-12);
    EXPECT_FALSE(plan.reasons.empty());
  }
}

TEST(Planner, MoreMemoryIsNeverSlower) {
  double before = 1e9;
  for (const double gigabytes : {6.0, 8.0, 12.0, 24.0, 48.0, 96.0}) {
    const Plan plan = make_plan(request_for("gpt2-xl", 8, gigabytes));
    if (!plan.fits()) continue;
    double fastest = 1e9;
    for (const Candidate& each : plan.candidates) fastest = std::min(fastest, each.prediction.step_seconds);
    EXPECT_LE(fastest, before);
    before = fastest;
  }
}

TEST(Planner, SaysWhatWouldHelpWhereNothingFits) {
  PlanRequest request = request_for("gpt2-xl", 1, 20);
  const Plan plan = make_plan(request);
  ASSERT_FALSE(plan.fits());
  EXPECT_THAT(plan.reasons.front(), ::testing::HasSubstr("too much"));
  const auto workers =
      std::ranges::find_if(plan.knobs, [](const Knob& k) { return k.change.starts_with("--workers"); });
  ASSERT_NE(workers, plan.knobs.end());
  // The knob holds what it promises.
  request.hardware.workers = static_cast<std::uint32_t>(std::stoul(workers->change.substr(10)));
  request.hardware.hosts = request.hardware.workers;
  EXPECT_TRUE(make_plan(request).fits());
  EXPECT_TRUE(plan.knobs.back().change.starts_with("--memory"));
}

TEST(Planner, AFixedPartThatDoesNotFitIsNamedAsTheKnob) {
  PlanRequest request = request_for("gpt2-xl", 8, 44);
  request.mesh = Mesh{.data = 8};
  request.zero = 0;
  const Plan plan = make_plan(request);
  ASSERT_FALSE(plan.fits());
  std::vector<std::string> changes;
  for (const Knob& knob : plan.knobs) changes.push_back(knob.change);
  EXPECT_THAT(changes, ::testing::Contains("without --zero"));
  EXPECT_THAT(changes, ::testing::Contains("without --mesh"));
}

TEST(Planner, KeepsShardsAndChunks) {
  PlanRequest request = request_for("gpt2", 8, 80);
  request.zero = 2;
  request.shards = 2;
  for (const Arrangement& each : arrangements(request)) {
    EXPECT_EQ(each.shards, 2u);
    EXPECT_EQ(each.mesh.data % 2, 0u);
  }
  // A group of two divides among two, not among all eight.
  const Prediction two = predict(request.workload, request.hardware, {.mesh = {.data = 8}, .zero = 1, .shards = 2});
  const Prediction all = predict(request.workload, request.hardware, {.mesh = {.data = 8}, .zero = 1});
  EXPECT_DOUBLE_EQ(two.memory.state.optimizer, 4 * all.memory.state.optimizer);
  PlanRequest piped = request_for("gpt2", 2, 80);
  piped.schedule = ScheduleKind::kInterleaved;
  piped.chunks = 3;
  for (const Arrangement& each : arrangements(piped)) EXPECT_EQ(each.chunks, each.mesh.pipe > 1 ? 3u : 1u);
}

TEST(Planner, AnImpossibleRequestIsRefusedWithTheReason) {
  PlanRequest request = request_for("gpt2-xl", 8, 24);
  request.mesh = Mesh{.data = 1, .pipe = 1, .tensor = 8};
  EXPECT_FAILS(make_plan(request), InvalidArgument, "25 attention heads", "tensor=5");
  request.mesh.reset();
  request.micro_batches = 7;
  EXPECT_FAILS(make_plan(request), InvalidArgument, "7 micro-batches");
}

TEST(Planner, FewerSamplesThanWorkersCanStillBePiped) {
  PlanRequest request = request_for("gpt2-xl", 8, 80);
  request.workload.batch = 2;
  const Plan plan = make_plan(request);
  ASSERT_TRUE(plan.fits());
  EXPECT_GT(plan.best().arrangement.mesh.pipe, 1u);
}

}  // namespace
}  // namespace trireme::plan
