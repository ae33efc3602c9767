#include "master/metrics_aggregator.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::master {
namespace {

const MetricsAggregator::Time kStart{};
const cluster::Plan kPlan{
    .steps = 20, .steps_per_epoch = 10, .batch = 100, .lanes = 2, .leased = false, .log_every = 5};

cluster::WorkDone work(Step clock, std::uint64_t samples, double loss_sum, double correct, double lr = 0.1) {
  const Metric accuracy{.name = "accuracy", .sum = correct, .count = static_cast<double>(samples)};
  return {.clock = clock, .samples = samples, .loss_sum = loss_sum, .metrics = {accuracy}, .lr = lr};
}

TEST(MetricsAggregator, ClocksComeFromServersForParticipatingWorkers) {
  cluster::Plan plan = kPlan;
  plan.leased = true;
  MetricsAggregator board(plan, 3, kStart);
  board.add(1, 0, work(9, 0, 0, 0), kStart);  // a worker's own report says nothing about the others
  EXPECT_EQ(board.spread_max(), 0u);
  board.set_clocks({.clocks = {4, 3, 1}, .spread_max = 3});
  board.set_clocks({.clocks = {}, .spread_max = 0});  // another server, which knows nothing yet
  EXPECT_EQ(board.spread_max(), 3u);
  EXPECT_EQ(board.clocks(), (std::vector<Step>{4, 3, 1}));
  EXPECT_EQ(board.now(kStart).clock_min, 1u);
  EXPECT_EQ(board.now(kStart).clock_max, 4u);
  board.leave(2);
  EXPECT_EQ(board.now(kStart).clock_min, 3u);
  board.set_clocks({.clocks = {5, 6}, .spread_max = 1});  // in the next view
  EXPECT_EQ(board.clocks(), (std::vector<Step>{5, 6}));
  EXPECT_EQ(board.now(kStart).clock_min, 5u);
  board.add(1, 1u << 20, work(100, 100, 0, 0), kStart);  // nobody
  EXPECT_EQ(board.now(kStart).samples, 0u);
}

TEST(MetricsAggregator, WithoutServersAllWorkersGoInStep) {
  MetricsAggregator board(kPlan, 3, kStart);
  board.add(1, 0, work(9, 50, 0, 0), kStart);
  board.add(1, 1, work(8, 50, 0, 0), kStart);  // only its report is late
  EXPECT_EQ(board.clocks(), (std::vector<Step>{9, 9, 9}));
  EXPECT_EQ(board.now(kStart).clock_min, 9u);
  EXPECT_EQ(board.now(kStart).clock_max, 9u);
  EXPECT_EQ(board.spread_max(), 0u);
}

TEST(MetricsAggregator, LeasedStepsAreCountedInSamples) {
  cluster::Plan plan = kPlan;
  plan.leased = true;
  MetricsAggregator board(plan, 2, kStart);
  board.add(1, 0, work(9, 450, 1, 1), kStart + 1s);
  board.add(1, 1, work(1, 50, 1, 1), kStart + 1s);
  EXPECT_EQ(board.now(kStart + 1s).step, 5u);
}

TEST(MetricsAggregator, NowCoversOnlyRecentWork) {
  MetricsAggregator board(kPlan, 1, kStart);
  board.add(1, 0, work(1, 100, 1000, 0), kStart + 1s);
  board.add(1, 0, work(2, 100, 100, 100), kStart + 100s);
  EXPECT_DOUBLE_EQ(board.now(kStart + 100s).loss, 1);
  EXPECT_DOUBLE_EQ(board.now(kStart + 100s).metric("accuracy"), 1);
}

TEST(MetricsAggregator, LossAndMetricsAreNanWhenUnknown) {
  MetricsAggregator board(kPlan, 1, kStart);
  EXPECT_TRUE(std::isnan(board.now(kStart).loss));
  board.add(1, 0, {.clock = 1, .samples = 100, .loss_sum = 100}, kStart + 1s);
  EXPECT_TRUE(std::isnan(board.now(kStart + 1s).metric("accuracy")));
  EXPECT_DOUBLE_EQ(board.now(kStart + 1s).loss, 1);
}

TEST(MetricsAggregator, WithoutAPlanItIsEmpty) {
  MetricsAggregator board;
  board.add(1, 0, work(1, 1, 1, 1), kStart);
  EXPECT_EQ(board.now(kStart).step, 0u);
}

TEST(MetricsAggregator, DescribesEachWorkerAndHowLongStepsTake) {
  MetricsAggregator board(kPlan, 2, kStart);
  for (int second = 0; second <= 2; ++second) {
    cluster::WorkDone done = work(static_cast<Step>(second) * 4, 100, 0, 0);
    done.phases = {0, 1};
    board.add(1, 0, done, kStart + std::chrono::seconds(second));
  }
  cluster::MemberStatus status;
  board.describe(0, kStart + 2s, status);
  EXPECT_EQ(status.clock, 8u);
  EXPECT_EQ(status.phases, (std::vector<double>{0, 3}));
  EXPECT_EQ(status.samples_per_s, 100);
  EXPECT_EQ(board.counters().step_s.count(), 4u);  // those before the first report took nobody knows how long
  EXPECT_EQ(board.counters().step_s.sum, 1.0);
  cluster::MemberStatus unknown;
  board.describe(1, kStart, unknown);
  EXPECT_EQ(unknown.samples_per_s, 0);
}

}  // namespace
}  // namespace trireme::master
