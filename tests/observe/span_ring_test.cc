#include "observe/span_ring.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Deadline::Clock::time_point moment(int ms) { return Deadline::Clock::time_point{} + std::chrono::milliseconds(ms); }

/// One step of 10 ms: data, forward, step.
void add_recorded_step(SpanRing& ring, Step step) {
  const int begin = static_cast<int>(10 * step);
  ring.add({.name = "data", .begin = moment(begin), .end = moment(begin + 1), .step = step});
  ring.add({.name = "forward", .begin = moment(begin + 1), .end = moment(begin + 9), .step = step});
  ring.add({.name = "step", .begin = moment(begin), .end = moment(begin + 10), .step = step});
}

std::vector<std::string> span_names(const Recording& recording) {
  std::vector<std::string> all;
  for (const RecordedSpan& span : recording.spans)
    all.push_back(span.name + (span.step ? std::to_string(*span.step) : ""));
  return all;
}

TEST(SpanRing, ReturnsTheSpansOfTheLastSteps) {
  SpanRing ring;
  EXPECT_THAT(ring.last_steps({.count = 3}).spans, IsEmpty());
  ring.add({.name = "checkpoint", .begin = moment(1), .end = moment(2)});
  for (Step step = 1; step <= 4; ++step) add_recorded_step(ring, step);
  ring.add({.name = "ask", .begin = moment(45), .end = moment(46)});
  const Recording last = ring.last_steps({.count = 2});
  EXPECT_THAT(span_names(last), ElementsAre("data3", "forward3", "step3", "data4", "forward4", "step4", "ask"));
  EXPECT_EQ(last.left_out, 0u);
  EXPECT_EQ(last.spans[1].end - last.spans[1].begin, 8'000'000);
  EXPECT_EQ(last.threads.at(last.spans[0].thread), "main");
}

TEST(SpanRing, ReturnsEarlierStepsToThoseWhoAskForThem) {
  SpanRing ring;
  for (Step step = 1; step <= 3; ++step) add_recorded_step(ring, step);
  ring.add({.name = "ask", .begin = moment(35), .end = moment(36)});
  for (Step step = 4; step <= 9; ++step) add_recorded_step(ring, step);
  ring.add({.name = "tell", .begin = moment(99), .end = moment(100)});
  EXPECT_THAT(span_names(ring.last_steps({.count = 1, .until = 3})), ElementsAre("data3", "forward3", "step3", "ask"));
  EXPECT_THAT(span_names(ring.last_steps({.count = 1, .until = 20})), ElementsAre("data9", "forward9", "step9", "tell"))
      << "that step has not come";
}

TEST(SpanRing, ReturnsTheNewestWhereEarlierOnesAreGone) {
  SpanRing ring(nullptr, 3);
  for (Step step = 1; step <= 4; ++step) add_recorded_step(ring, step);
  EXPECT_THAT(span_names(ring.last_steps({.count = 1, .until = 2})), ElementsAre("data4", "forward4", "step4"));
}

TEST(SpanRing, ForgetsTheOldestAndSaysSo) {
  SpanRing ring(nullptr, 4);
  for (Step step = 1; step <= 4; ++step) add_recorded_step(ring, step);
  const Recording last = ring.last_steps({.count = 2});
  EXPECT_THAT(span_names(last), ElementsAre("step3", "data4", "forward4", "step4"));
  EXPECT_GT(last.left_out, 0u);
  EXPECT_EQ(ring.last_steps({.count = 1}).left_out, 0u);
}

TEST(SpanRing, ManyThreadsAddAtOnce) {
  SpanRing ring(nullptr, 100);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (Step step = 0; step < 1000; ++step)
          ring.add({.name = "update", .begin = moment(1), .end = moment(2), .step = step});
      });
    }
    for (int i = 0; i < 20; ++i) EXPECT_LE(ring.last_steps({.count = 1000}).spans.size(), 100u);
  }
  EXPECT_EQ(ring.last_steps({.count = 1000}).spans.size(), 100u);
}

}  // namespace
}  // namespace trireme::observe
