// What is predicted beside what trainings report (event=memory_held): gpt-tiny:layers=4,width=128 on 64 of 256 tokens,
// batch 16, LibTorch 1.13; all parts of the fullest worker.

#include "plan/cost/peak_memory.h"

#include <gtest/gtest.h>

#include "plan/predict.h"

namespace trireme::plan {
namespace {

struct Training {
  const char* mesh;
  std::uint32_t zero = 0;
  ScheduleKind schedule = ScheduleKind::k1F1B;
  std::uint32_t micro_batches = 1;
  double megabytes = 0;
};

constexpr Training kTrainings[] = {
    {"data=1", 0, ScheduleKind::k1F1B, 1, 55.38},
    {"data=1", 0, ScheduleKind::k1F1B, 4, 30.55},
    {"data=2", 0, ScheduleKind::k1F1B, 1, 34.38},
    {"data=2", 1, ScheduleKind::k1F1B, 1, 31.04},
    {"data=2", 2, ScheduleKind::k1F1B, 1, 31.04},
    {"data=2", 3, ScheduleKind::k1F1B, 1, 31.67},
    {"data=2", 2, ScheduleKind::k1F1B, 4, 22.15},
    {"data=2", 3, ScheduleKind::k1F1B, 4, 22.07},
    {"data=1,pipe=2", 0, ScheduleKind::kGpipe, 8, 28.42},
    {"data=1,pipe=2", 0, ScheduleKind::k1F1B, 8, 13.93},
    {"data=1,pipe=2", 0, ScheduleKind::kInterleaved, 8, 15.21},
    {"data=1,pipe=2", 0, ScheduleKind::kZbH1, 8, 14.58},
    {"data=1,pipe=2", 0, ScheduleKind::kZbV, 8, 14.81},
    {"data=2,pipe=2", 0, ScheduleKind::k1F1B, 4, 12.21},
    {"data=2,pipe=2", 2, ScheduleKind::k1F1B, 4, 10.59},
    {"data=1,pipe=4", 0, ScheduleKind::k1F1B, 8, 10.01},
    {"data=1,tensor=2", 0, ScheduleKind::k1F1B, 1, 30.22},
};

RankMemory planned(const Training& training, std::uint64_t batch = 16) {
  Arrangement arrangement{.mesh = parse_mesh(training.mesh),
                          .zero = training.zero,
                          .schedule = training.schedule,
                          .micro_batches = training.micro_batches};
  if (arrangement.mesh.pipe > 1) arrangement.chunks = usual_chunks(training.schedule);
  const ModelInput input{.length = 64, .classes = 256, .fused_attention = false};
  const Workload workload{.model = model_cost("gpt-tiny:layers=4,width=128", input), .batch = batch};
  const Hardware hardware{.workers = static_cast<std::uint32_t>(arrangement.mesh.ranks()), .flops = 3e10};
  return predict(workload, hardware, arrangement).memory;
}

TEST(PeakMemory, IsWhatTrainingsReport) {
  for (const Training& training : kTrainings) {
    EXPECT_NEAR(planned(training).total() / 1e6 / training.megabytes, 1, 0.02)
        << training.mesh << ", ZeRO " << training.zero << ", " << name_of(training.schedule) << ", "
        << training.micro_batches << " micro-batches";
  }
}

TEST(PeakMemory, OfManyMicroBatchesIsThatOfTheLast) {  // of which only 12 are run
  const double megabytes = planned({"data=1,pipe=2", 0, ScheduleKind::k1F1B, 64}, /*batch=*/64).total() / 1e6;
  EXPECT_NEAR(megabytes / 21.52, 1, 0.02);
}

TEST(PeakMemory, ZeroTwoSavesNoGradientsThatAreSummedFirst) {
  const RankMemory one = planned({"data=2", 1, ScheduleKind::k1F1B, 4});
  const RankMemory two = planned({"data=2", 2, ScheduleKind::k1F1B, 4});
  EXPECT_DOUBLE_EQ(two.state.gradients, one.state.gradients);
  EXPECT_DOUBLE_EQ(two.state.gradients, 3 * 4.0 * 834'304);
}

/// A stage of one layer in which each kind of memory has a size of its own.
StageMemory one_layer() {
  return {.layers = {{.kept = 100, .loss = 1, .passing = 20, .deferred = 60, .gradients = 30, .largest = 10}}};
}

TEST(PeakMemory, GradientsAreNotThereWhenTheBackwardBegins) {
  EXPECT_DOUBLE_EQ(backward_peak(one_layer(), /*tied=*/0), 130);  // not 100 + 20 + 30
  StageMemory long_loss = one_layer();
  long_loss.layers[0].loss = 40;
  EXPECT_DOUBLE_EQ(backward_peak(long_loss, 0), 180);  // at the loss
}

TEST(PeakMemory, ASplitBackwardKeepsWhatTheWeightsNeed) {
  const std::vector<StageMemory> stages{one_layer()};
  const auto peak = [&](ScheduleKind kind) {
    const Schedule schedule = make_schedule({.kind = kind, .ranks = 1, .micro_batches = 2});
    return pipeline_peak({.lanes = 2, .summed = {30}}, stages, evaluate(schedule, std::vector{StageTimes{}})).total();
  };
  EXPECT_DOUBLE_EQ(peak(ScheduleKind::k1F1B), 130);
  EXPECT_GE(peak(ScheduleKind::kZbH1), 120);
}

}  // namespace
}  // namespace trireme::plan
