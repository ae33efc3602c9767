#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/planner.h"

namespace trireme::plan {
namespace {

ModelCost small_gpt() { return model_cost("gpt-tiny:layers=4", {.length = 32, .classes = 256}); }

/// A machine on which each layer takes a millisecond forward for one sample, two back, and so on in proportion.
Calibration measured(const ModelCost& model, std::uint32_t cores) {
  Calibration calibration{.model = model.name,
                          .sample = model.sample,
                          .classes = model.input.classes,
                          .cores = cores,
                          .memory = 8e9,
                          .flops = 1e10,
                          .samples = {1, 2, 4},
                          .link = {1e9, 1e-5}};
  for (const double samples : calibration.samples) {
    calibration.layers.emplace_back(model.layers.size(), LayerTiming{1e-3 * samples, 2e-3 * samples});
  }
  return calibration;
}

TEST(Calibration, TextAndBack) {
  const Calibration calibration = measured(small_gpt(), 2);
  const Calibration again = parse_calibration(to_text(calibration));
  EXPECT_EQ(to_text(again), to_text(calibration));
  EXPECT_EQ(again.layers, calibration.layers);
}

TEST(Calibration, RefusesWhatIsNoCalibration) {
  EXPECT_THROW(parse_calibration("{}"), InvalidArgument);
  EXPECT_THROW(parse_calibration("nonsense"), InvalidArgument);
  Calibration broken = measured(small_gpt(), 2);
  broken.samples.pop_back();
  EXPECT_THROW(parse_calibration(to_text(broken)), InvalidArgument);
  broken = measured(small_gpt(), 2);
  broken.layers.back().pop_back();
  EXPECT_THROW(parse_calibration(to_text(broken)), InvalidArgument);
}

TEST(Calibration, InterpolatesAndGoesOn) {
  Calibration calibration = measured(small_gpt(), 2);
  EXPECT_DOUBLE_EQ(calibration.timing(0, 3).forward, 3e-3);
  EXPECT_DOUBLE_EQ(calibration.timing(0, 8).backward, 16e-3);
  EXPECT_DOUBLE_EQ(calibration.timing(0, 0.5).forward, 0.5e-3);
  calibration.layers[0][1] = {5e-3, 5e-3};  // one sample takes longer than two: never below zero
  EXPECT_GE(calibration.timing(1, 100).forward, 0);
}

TEST(Calibration, HoldsForItsModelOnly) {
  const Calibration calibration = measured(small_gpt(), 2);
  EXPECT_TRUE(calibration.times(small_gpt(), Precision::kFp32));
  EXPECT_FALSE(calibration.times(small_gpt(), Precision::kBf16));
  EXPECT_FALSE(calibration.times(model_cost("gpt-tiny:layers=4", {.length = 64, .classes = 256}), Precision::kFp32));
  EXPECT_FALSE(calibration.times(model_cost("gpt-tiny:layers=5", {.length = 32, .classes = 256}), Precision::kFp32));
}

TEST(Predict, TakesMeasuredTimesOfLayers) {
  const Workload workload{.model = small_gpt(), .batch = 4};
  Hardware hardware{.workers = 1, .hosts = 1, .memory = 1e9, .flops = 1};
  hardware.measured = std::make_shared<const Calibration>(measured(workload.model, 8));
  // Six layers, four samples, three milliseconds each.
  EXPECT_NEAR(predict(workload, hardware, {}).step_seconds, 6 * 4 * 3e-3, 1e-9);
}

TEST(Predict, WorkersThatShareCoresWaitForEachOther) {
  const Workload workload{.model = small_gpt(), .batch = 8};
  Hardware hardware{.workers = 4, .hosts = 1, .memory = 1e9, .flops = 1, .links = {.host = {1e12, 0}}};
  hardware.measured = std::make_shared<const Calibration>(measured(workload.model, 2));
  const Arrangement data{.mesh = {.data = 4}};
  const double alone = predict(workload, hardware, data).step_seconds;
  hardware.cores = 2;
  const Prediction crowded = predict(workload, hardware, data);
  EXPECT_NEAR(crowded.step_seconds / alone, 2, 0.01);
  EXPECT_DOUBLE_EQ(crowded.crowded_seconds, crowded.step_seconds);
}

TEST(ModelCost, TakesTheSettingsOfTrain) {
  EXPECT_EQ(model_cost("gpt-tiny:layers=30").layers.size(), 32u);
  EXPECT_EQ(model_cost("gpt-tiny:width=128,heads=8").heads, 8u);
  EXPECT_EQ(model_cost("mlp:layers=3,width=10").layers.size(), 4u);
  EXPECT_GT(model_cost("gpt-tiny:dropout=0.1").layers[1].kept, model_cost("gpt-tiny").layers[1].kept);
  EXPECT_THROW(model_cost("gpt-tiny:depth=3"), InvalidArgument);
  EXPECT_THROW(model_cost("gpt-tiny:width=10,heads=4"), InvalidArgument);
  EXPECT_TRUE(is_planned("gpt2:layers=2"));
  EXPECT_FALSE(is_planned("wide-deep"));
}

TEST(Divisibility, NamesTheNearestThatFits) {
  const ModelCost gpt = small_gpt();  // 6 layers, 4 heads
  EXPECT_EQ(why_indivisible(gpt, {.pipe = 6}, 1, 1), std::nullopt);
  EXPECT_NE(why_indivisible(gpt, {.pipe = 7}, 1, 1)->find("at most pipe=6"), std::string::npos);
  EXPECT_NE(why_indivisible(gpt, {.pipe = 4}, 2, 1)->find("at most pipe=3"), std::string::npos);
  EXPECT_NE(why_indivisible(gpt, {.tensor = 3}, 1, 3)->find("the nearest is tensor=2"), std::string::npos);
  EXPECT_NE(why_indivisible(gpt, {.tensor = 2}, 1, 8)->find("the nearest is 4"), std::string::npos);
  EXPECT_NE(why_indivisible(model_cost("lenet"), {.tensor = 2}, 1, 2)->find("tensor=1"), std::string::npos);
  EXPECT_EQ(why_indivisible(model_cost("mlp"), {.tensor = 2}, 1, 2), std::nullopt);
}

TEST(Planner, OffloadLeavesTheOptimizersStateToServers) {
  PlanRequest request{.workload = {.model = small_gpt(), .batch = 8},
                      .hardware = {.workers = 2, .hosts = 1, .memory = 1e9, .flops = 1e10}};
  const double held = make_plan(request).best().prediction.memory.state.optimizer;
  request.offload = true;
  const Plan plan = make_plan(request);
  EXPECT_GT(held, 0);
  for (const Candidate& each : plan.candidates) {
    EXPECT_EQ(each.prediction.memory.state.optimizer, 0);
    EXPECT_EQ(each.arrangement.mesh, (Mesh{.data = 2}));
    EXPECT_EQ(each.arrangement.zero, 0u);
  }
}

TEST(Planner, KeepsTheNumberOfLanes) {
  const PlanRequest request{.workload = {.model = small_gpt(), .batch = 8},
                            .hardware = {.workers = 2, .hosts = 1, .memory = 1e9, .flops = 1e10},
                            .lanes = 4};
  for (const Arrangement& each : arrangements(request)) EXPECT_EQ(each.mesh.data * each.micro_batches, 4u);
}

}  // namespace
}  // namespace trireme::plan
