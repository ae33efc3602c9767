#include "plan/goodput.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::plan {
namespace {

constexpr double kDay = 86'400;

TEST(BestInterval, IsYoungsForRareFailures) {
  EXPECT_NEAR(best_interval(10, 1e6), std::sqrt(2 * 10 * 1e6), 0.01 * std::sqrt(2e7));
  EXPECT_EQ(best_interval(0, 1e6), 0);
  EXPECT_EQ(best_interval(10, 1), 1);  // checkpoints take longer than the job lives
}

TEST(Goodput, WithoutFailuresIsOne) {
  const Goodput goodput = simulate({.workers = 8, .step = 0.5, .slow_step = 0.5});
  EXPECT_NEAR(goodput.share, 1, 1e-9);
  EXPECT_EQ(goodput.failures, 0u);
}

TEST(Goodput, FollowsTheFormula) {
  for (const std::uint32_t workers : {64u, 1000u, 10'000u}) {
    const double mtbf = 4 * 3600;  // of the job
    const FailureModel model{
        .workers = workers, .step = 2, .slow_step = 2, .worker_mtbf = mtbf * workers, .checkpoint = 30, .restart = 60};
    const Goodput goodput = simulate(model);
    EXPECT_NEAR(goodput.share, goodput_formula(30, goodput.interval, 60, mtbf), 0.01) << workers;
    EXPECT_GT(goodput.failures, 100u);
  }
}

TEST(Goodput, IsBestNearTheBestInterval) {
  FailureModel model{
      .workers = 4096, .step = 1, .slow_step = 1, .worker_mtbf = 500 * kDay, .checkpoint = 20, .restart = 30};
  const double best = simulate(model).share;
  const double interval = best_interval(20, model.worker_mtbf / 4096);
  for (const double times : {0.2, 5.0}) {
    model.interval = interval * times;
    EXPECT_LT(simulate(model).share, best) << times;
  }
}

TEST(Goodput, OfManyWorkersIsSlowedByAnyStraggler) {
  const FailureModel model{.workers = 100, .step = 1, .slow_step = 1.5, .straggler_share = 0.02};
  const double any = 1 - std::pow(0.98, 100);
  EXPECT_NEAR(simulate(model).share, 1 / (1 + 0.5 * any), 0.01);
}

TEST(Goodput, FromAReplicaLosesTheStepAndTheRestartOnly) {
  FailureModel model{
      .workers = 1024, .step = 1, .slow_step = 1, .worker_mtbf = 200 * kDay, .checkpoint = 30, .restart = 1};
  const Goodput checkpoint = simulate(model);
  model.from_replica = true;
  const Goodput replica = simulate(model);
  EXPECT_GT(replica.share, checkpoint.share);
  EXPECT_LE(replica.repeated_seconds, static_cast<double>(replica.failures) * 31);
}

TEST(Goodput, IsTheSameForTheSameSeed) {
  FailureModel model{.workers = 500,
                     .step = 1,
                     .slow_step = 2,
                     .straggler_share = 0.001,
                     .worker_mtbf = 100 * kDay,
                     .checkpoint = 30,
                     .restart = 60,
                     .seed = 7};
  const Goodput one = simulate(model);
  EXPECT_EQ(one.share, simulate(model).share);
  model.seed = 8;
  EXPECT_NE(one.share, simulate(model).share);
}

TEST(Goodput, OfAJobThatFailsFasterThanItStartsEnds) {
  const Goodput goodput =
      simulate({.workers = 10'000, .step = 10, .slow_step = 10, .worker_mtbf = 3600, .checkpoint = 30, .restart = 600});
  EXPECT_LT(goodput.share, 0.01);
  EXPECT_GT(goodput.failures, 1000u);
}

TEST(Goodput, RefusesWhatMakesNoSense) {
  EXPECT_FAILS(simulate({.step = 0}), InvalidArgument, "above 0");
  EXPECT_FAILS(simulate({.workers = 0}), InvalidArgument, "at least one worker");
  EXPECT_FAILS(simulate({.worker_mtbf = -1}), InvalidArgument, "not negative");
  EXPECT_FAILS(simulate({.straggler_share = 2}), InvalidArgument, "goodput");
}

TEST(SlowStep, IsAsSlowAsTheBusiestStageMakesIt) {
  const Workload workload{.model = model_cost("gpt2"), .batch = 32};
  const Hardware hardware{.workers = 4, .hosts = 4, .memory = 1e12, .flops = 1e14};
  const Arrangement arrangement{.mesh = {.pipe = 4}, .micro_batches = 32};
  const Prediction prediction = predict(workload, hardware, arrangement);
  EXPECT_NEAR(slow_step_seconds(arrangement, prediction, 1), prediction.step_seconds, 1e-12);
  const double slow = slow_step_seconds(arrangement, prediction, 1.5);
  EXPECT_GT(slow, 1.3 * prediction.step_seconds);
  EXPECT_LT(slow, 1.5 * prediction.step_seconds);
}

}  // namespace
}  // namespace trireme::plan
