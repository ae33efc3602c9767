#include "master/metrics_rows.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::master {
namespace {

const cluster::Plan kRowPlan{
    .steps = 23, .steps_per_epoch = 8, .batch = 100, .samples_per_epoch = 750, .lanes = 2, .log_every = 5};

/// What a worker holds after it computed `lane` in steps [first, end), if each gives `loss` per sample.
std::vector<cluster::RowPart> parts(Lane lane, Step first, Step end, double loss) {
  std::vector<cluster::RowPart> all;
  for (Step step = first; step < end; ++step) {
    if (all.empty() || all.back().row != step / 5) {
      all.push_back({.row = step / 5, .lane = lane, .first = step, .last = step, .began = 1000.0 + step});
    }
    cluster::RowPart& part = all.back();
    part.last = step;
    ++part.steps;
    part.samples += 50;
    part.loss_sum += 50 * loss;
    add(part.metrics, {{.name = "accuracy", .sum = 25, .count = 50}});
    part.lr = 1.0 / static_cast<double>(step + 1);
    part.ended = 1001.0 + step;  // a step takes a second
  }
  return all;
}

class MetricsRowsTest : public ::testing::Test {
 protected:
  void complete() { rows.complete({}); }
  MetricsRows rows{kRowPlan};
};

TEST_F(MetricsRowsTest, ARowIsOfExactlyItsSteps) {
  rows.add(1, parts(0, 0, 7, 1));  // reports come when they come
  complete();
  EXPECT_TRUE(rows.due().empty());
  rows.add(2, parts(1, 0, 5, 2));
  complete();
  ASSERT_EQ(rows.due().size(), 1u);
  const MetricsRow& row = rows.due()[0];
  EXPECT_EQ(row.step, 5u);
  EXPECT_EQ(row.samples, 500u);
  EXPECT_DOUBLE_EQ(row.epoch, 5.0 / 8);
  EXPECT_DOUBLE_EQ(row.loss, 1.5);
  EXPECT_DOUBLE_EQ(row.metric("accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(row.lr, 1.0 / 5);
  EXPECT_DOUBLE_EQ(row.time, 1005);
  EXPECT_DOUBLE_EQ(row.interval_s, 5);
  EXPECT_DOUBLE_EQ(row.samples_per_s, 100);
  EXPECT_EQ(row.clock_min, 5u);
}

TEST_F(MetricsRowsTest, RowsDoNotDependOnWhoReportsWhen) {
  MetricsRows alone(kRowPlan);
  for (const Lane lane : {0u, 1u}) alone.add(1, parts(lane, 0, 23, 0.1 * (lane + 1)));
  alone.complete({});
  for (Step end = 1; end <= 23; ++end) {
    rows.add(7, parts(1, 0, end, 0.2));
    complete();
    rows.add(3, parts(0, 0, end, 0.1));
    rows.add(3, parts(0, 0, end, 0.1));  // again: an answer was lost
    complete();
  }
  ASSERT_EQ(rows.due().size(), 5u);
  ASSERT_EQ(alone.due().size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(rows.due()[i].step, alone.due()[i].step);
    EXPECT_EQ(rows.due()[i].loss, alone.due()[i].loss);
    EXPECT_EQ(rows.due()[i].samples, alone.due()[i].samples);
  }
  EXPECT_EQ(rows.due()[4].step, 23u);  // the last is shorter
  EXPECT_EQ(rows.due()[4].samples, 2 * 750u + 700);
}

TEST_F(MetricsRowsTest, TheChiefGetsARowUntilItHasIt) {
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 0, 12, 1));
  complete();
  EXPECT_EQ(rows.due().size(), 2u);
  rows.taken({.known = true, .up_to = 5});
  ASSERT_EQ(rows.due().size(), 1u);
  EXPECT_EQ(rows.due()[0].step, 10u);
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 0, 12, 1));  // a worker that has not heard of it
  complete();
  EXPECT_EQ(rows.due().size(), 1u);
}

TEST_F(MetricsRowsTest, ANewMasterLosesNothing) {
  MetricsRows successor(kRowPlan);
  successor.taken({.known = true, .up_to = 5});
  for (const Lane lane : {0u, 1u}) successor.add(1, parts(lane, 0, 12, 1));
  successor.complete({});
  ASSERT_EQ(successor.due().size(), 1u);
  EXPECT_EQ(successor.due()[0].step, 10u);
}

TEST_F(MetricsRowsTest, WhatADeadWorkerDidNotReportIsNotWaitedForLong) {
  rows.add(1, parts(0, 0, 9, 1));
  rows.add(2, parts(1, 0, 3, 4));  // it died after step 3 of 4
  complete();
  EXPECT_TRUE(rows.due().empty());
  rows.add(1, parts(0, 0, 10, 1));
  rows.add(1, parts(1, 4, 10, 1));
  complete();
  ASSERT_EQ(rows.due().size(), 2u);
  EXPECT_EQ(rows.due()[0].step, 5u);
  EXPECT_DOUBLE_EQ(rows.due()[0].loss, (5 + 3 * 4 + 1) / 9.0);
}

TEST_F(MetricsRowsTest, AResumedRunBeginsInTheMiddleOfARow) {
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 13, 15, 1));
  complete();
  ASSERT_EQ(rows.due().size(), 1u);
  EXPECT_EQ(rows.due()[0].step, 15u);
  EXPECT_EQ(rows.due()[0].samples, 750u + 700);
}

TEST_F(MetricsRowsTest, BackToACheckpointRowsAreMadeAgain) {
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 0, 12, 1));
  complete();
  rows.taken({.known = true, .up_to = 10});
  rows.taken({.known = true, .up_to = 5, .back_in = 3});
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 5, 10, 2));
  complete();
  ASSERT_EQ(rows.due().size(), 1u);
  EXPECT_EQ(rows.due()[0].step, 10u);
  EXPECT_DOUBLE_EQ(rows.due()[0].loss, 2);
}

TEST_F(MetricsRowsTest, AJobThatStopsEarlyEndsItsLastRow) {
  for (const Lane lane : {0u, 1u}) rows.add(1, parts(lane, 0, 7, 1));
  complete();
  EXPECT_EQ(rows.due().size(), 1u);
  rows.taken({.known = true, .ended = true, .last_step = 7});
  complete();
  ASSERT_EQ(rows.due().size(), 2u);
  EXPECT_EQ(rows.due()[1].step, 7u);
}

TEST_F(MetricsRowsTest, NonsenseIsLeftOut) {
  rows.add(1, {{.row = 1, .lane = 0, .first = 0, .last = 0, .steps = 1},
               {.row = 0, .lane = 9, .first = 0, .last = 0, .steps = 1},
               {.row = 0, .lane = 0, .first = 0, .last = 0, .steps = 0}});
  rows.taken({.known = true, .ended = true, .give_up = true});
  complete();
  EXPECT_TRUE(rows.due().empty());
}

}  // namespace
}  // namespace trireme::master
