#include "cluster/clock_estimate.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "cluster/span_report.h"

namespace trireme::cluster {
namespace {

TEST(ClockEstimate, OneClockNeedsNoEstimate) {
  ClockEstimate estimate("here");
  EXPECT_FALSE(estimate.at(0).known);
  estimate.add("here", 100, 150, 200);
  EXPECT_EQ(estimate.at(1'000'000'000), (ClockBounds{.least = 0, .most = 0, .known = true}));
}

TEST(ClockEstimate, AnAnswerBoundsTheOffset) {
  ClockEstimate estimate("here");
  estimate.add("there", 1000, 51000, 2000);
  EXPECT_EQ(estimate.at(2000), (ClockBounds{.least = 49000, .most = 50000, .known = true}));
}

TEST(ClockEstimate, TheTruthIsAlwaysWithinTheBoundsHoweverUnevenTheNetworkIs) {
  RandomStream random(7);
  for (int trial = 0; trial < 50; ++trial) {
    const auto ahead = static_cast<std::int64_t>(random.below(1'000'000'000)) - 500'000'000;
    const double drift = (static_cast<double>(random.below(200)) - 100) * 1e-6;  // as bad as clocks are
    ClockEstimate estimate("here");
    std::int64_t now = 1'000'000'000;
    const auto offset = [&](std::int64_t time) {
      return ahead + static_cast<std::int64_t>(drift * static_cast<double>(time));
    };
    for (int beat = 0; beat < 200; ++beat) {
      const std::int64_t sent = now;
      const std::int64_t there = sent + static_cast<std::int64_t>(random.below(3'000'000));
      const std::int64_t received = there + static_cast<std::int64_t>(random.below(100'000));
      estimate.add("there", sent, there + offset(there), received);
      now = received + 100'000'000;
      const ClockBounds bounds = estimate.at(received);
      ASSERT_LE(bounds.least, offset(received) + 1000);
      ASSERT_GE(bounds.most, offset(received) - 1000);
    }
    const ClockBounds bounds = estimate.at(now);
    EXPECT_LT(bounds.most - bounds.least, 1'000'000) << "many answers are better than one";
  }
}

TEST(ClockEstimate, AnotherMasterHasAnotherClock) {
  ClockEstimate estimate("here");
  estimate.add("there", 1000, 51000, 2000);
  estimate.add("elsewhere", 3000, 3500, 4000);
  EXPECT_EQ(estimate.at(4000), (ClockBounds{.least = -500, .most = 500, .known = true}));
}

TEST(SpanReport, TravelsWhole) {
  SpanReport report{.member = 3, .request = 9, .process = "worker 1", .pid = 71, .host = "node7"};
  report.clock = {.least = -5, .most = 7, .known = true};
  report.recording = {.spans = {{.name = "forward", .begin = 1, .end = 2, .thread = 71, .step = 12},
                                {.name = "all-reduce x", .begin = 3, .end = 4, .thread = 72, .overlaps = true}},
                      .threads = {{71, "main"}, {72, "net"}},
                      .left_out = 4};
  const auto travelled = nlohmann::json::from_msgpack(nlohmann::json::to_msgpack(report)).get<SpanReport>();
  EXPECT_EQ(travelled.recording, report.recording);
  EXPECT_EQ(travelled.clock, report.clock);
  EXPECT_EQ(travelled.process, "worker 1");
}

}  // namespace
}  // namespace trireme::cluster
