#include "dash/clock_alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "dash/aligned_timeline.h"

namespace trireme::dash {
namespace {

using cluster::ClockBounds;
using testing::ElementsAre;

ClockBounds within(std::int64_t least, std::int64_t most) { return {.least = least, .most = most, .known = true}; }

TEST(AlignClocks, TakesTheMiddleAndSaysHowWrongItMayBe) {
  const ClockAlignment found = align_clocks({within(0, 0), within(90, 110)}, {});
  EXPECT_THAT(found.offsets, ElementsAre(0, 100));
  EXPECT_THAT(found.errors, ElementsAre(0, 10));
}

TEST(AlignClocks, AMessageIsNotReadBeforeItIsSent) {
  // By the bounds alone, process 1 would have read at 1100 what process 0 sent at 1105.
  const ClockAlignment found =
      align_clocks({within(0, 0), within(90, 110)}, {{.first = 0, .before = 1105, .second = 1, .after = 1000}});
  EXPECT_GE(1000 + found.offsets[1], 1105);
  EXPECT_THAT(found.errors, ElementsAre(0, 3));
}

TEST(AlignClocks, ContradictionsAreReportedAndTheBoundsHold) {
  const ClockAlignment found =
      align_clocks({within(0, 0), within(90, 110)}, {{.first = 0, .before = 5000, .second = 1, .after = 1000}});
  EXPECT_TRUE(found.contradiction);
  EXPECT_THAT(found.offsets, ElementsAre(0, 100));
}

/// Processes with clocks that are wrong by up to a second exchange messages; the bounds come from heartbeats.
TEST(AlignClocks, NoMessageEverArrivesBeforeItWasSent) {
  RandomStream random(11);
  for (int trial = 0; trial < 100; ++trial) {
    const std::size_t processes = 2 + random.below(12);
    std::vector<std::int64_t> truth;
    std::vector<ClockBounds> bounds;
    for (std::size_t i = 0; i < processes; ++i) {
      truth.push_back(static_cast<std::int64_t>(random.below(2'000'000'000)) - 1'000'000'000);
      const auto early = static_cast<std::int64_t>(random.below(2'000'000));
      const auto late = static_cast<std::int64_t>(random.below(2'000'000));
      bounds.push_back(within(truth.back() - early, truth.back() + late));
    }
    std::vector<MessageOrder> messages;
    for (int message = 0; message < 200; ++message) {
      const std::size_t from = random.below(processes);
      const std::size_t to = random.below(processes);
      if (from == to) continue;
      const auto sent = static_cast<std::int64_t>(random.below(1'000'000'000));
      const auto read = sent + static_cast<std::int64_t>(random.below(50'000));
      messages.push_back({.first = from, .before = sent - truth[from], .second = to, .after = read - truth[to]});
    }
    const ClockAlignment found = align_clocks(bounds, messages);
    ASSERT_FALSE(found.contradiction);
    for (const MessageOrder& one : messages) {
      ASSERT_LE(one.before + found.offsets[one.first], one.after + found.offsets[one.second]);
    }
    for (std::size_t i = 0; i < processes; ++i) {
      EXPECT_LE(std::abs(found.offsets[i] - truth[i]), found.errors[i] + 1) << "the error is a bound";
    }
  }
}

// ---- The timeline.

cluster::SpanReport report(const std::string& process, ClockBounds clock, std::vector<RecordedSpan> spans) {
  cluster::SpanReport made{.process = process, .pid = 7, .host = "node", .clock = clock};
  made.recording = {.spans = std::move(spans), .threads = {{1, "main"}, {2, "net"}}};
  return made;
}

/// Two workers and a server; step 1 is there so that step 2 is not the first. Clocks are ahead by 0, 1000, 5000.
cluster::CollectedSpans three_processes() {
  return {.known = true,
          .missing = {"worker 7"},
          .reports = {report("server 0", within(-5100, -4900),
                             {{.name = "update", .begin = 5050, .end = 5060, .thread = 1, .step = 1},
                              {.name = "update", .begin = 5150, .end = 5160, .thread = 1, .step = 2}}),
                      report("worker 1", within(-1100, -900),
                             {{.name = "push", .begin = 1010, .end = 1020, .thread = 1, .step = 1},
                              {.name = "push", .begin = 1149, .end = 1152, .thread = 1, .step = 2},
                              {.name = "wait", .begin = 1152, .end = 1161, .thread = 1, .step = 2}}),
                      report("worker 0", within(0, 0),
                             {{.name = "push", .begin = 10, .end = 20, .thread = 1, .step = 1},
                              {.name = "push", .begin = 110, .end = 115, .thread = 1, .step = 2},
                              {.name = "wait", .begin = 115, .end = 162, .thread = 1, .step = 2}})},
          .wall_ahead = 1'000'000,
          .strategy = "ps:bsp"};
}

TEST(AlignedTimeline, AServerUpdatesAfterAllHavePushedAndBeforeTheirWaitIsOver) {
  const AlignedTimeline timeline(three_processes());
  const auto& reports = timeline.collected().reports;
  ASSERT_EQ(reports[0].process, "worker 0");
  ASSERT_EQ(reports[2].process, "server 0");
  const auto& offsets = timeline.alignment().offsets;
  const std::int64_t update = 5150 + offsets[2];
  EXPECT_LE(1149 + offsets[1], update);
  EXPECT_LE(110 + offsets[0], update);
  EXPECT_LE(update, 1161 + offsets[1]);
  EXPECT_LE(update, 162 + offsets[0]);
  EXPECT_LT(timeline.alignment().errors[2], 100) << "messages say more than heartbeats";
  EXPECT_TRUE(message_orders(reports, "ps:asp").empty()) << "nobody waits for anybody there";
}

TEST(AlignedTimeline, AnAllReduceEndsForNobodyBeforeAllHaveBegunIt) {
  const std::vector<cluster::SpanReport> reports{
      report("worker 0", within(0, 0),
             {{.name = "step", .begin = 0, .end = 1, .thread = 1, .step = 1},
              {.name = "all-reduce bucket 0", .begin = 10, .end = 30, .thread = 2, .step = 2, .overlaps = true}}),
      report("worker 1", within(-100, 100),
             {{.name = "step", .begin = 0, .end = 1, .thread = 1, .step = 1},
              {.name = "all-reduce bucket 0", .begin = 90, .end = 95, .thread = 2, .step = 2, .overlaps = true}})};
  const auto orders = message_orders(reports, "allreduce");
  ASSERT_EQ(orders.size(), 2u);
  const ClockAlignment found = align_clocks({within(0, 0), within(-100, 100)}, orders);
  EXPECT_LE(90 + found.offsets[1], 30);
  EXPECT_GE(95 + found.offsets[1], 10);
}

TEST(AlignClocks, WhereBoundsContradictThemselvesEachKeepsItsOwnClock) {
  const ClockAlignment found = align_clocks({within(10, 5), within(0, 0)}, {});
  EXPECT_TRUE(found.contradiction);
  EXPECT_THAT(found.offsets, testing::ElementsAre(0, 0));
  EXPECT_THAT(found.errors, testing::ElementsAre(kUnknownClock, kUnknownClock));
}

TEST(AlignedTimeline, IsWrittenForThePageAndForPerfetto) {
  const AlignedTimeline timeline(three_processes());
  const auto page = timeline.to_page();
  EXPECT_EQ(page["processes"][0]["process"], "worker 0");
  EXPECT_EQ(page["processes"][0]["threads"][0]["name"], "main");
  EXPECT_EQ(page["processes"][0]["threads"][0]["spans"][0][0], "push");
  EXPECT_EQ(page["missing"][0], "worker 7");
  EXPECT_GT(page["error_us"], 0.0);
  EXPECT_LT(page["error_us"], 0.1);
  std::size_t spans = 0;
  const auto trace = timeline.to_trace();
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++spans;
    EXPECT_NEAR(event["ts"].get<double>(), 1000.0, 1.0) << "of the wall clock";
    EXPECT_TRUE(event["args"].contains("step"));
  }
  EXPECT_EQ(spans, 8u);
}

TEST(AlignedTimeline, WhatGoesOnAtOnceIsInRowsOfItsOwn) {
  cluster::CollectedSpans spans{.known = true};
  spans.reports.push_back(report("worker 0", within(0, 0),
                                 {{.name = "a", .begin = 0, .end = 10, .thread = 2, .overlaps = true},
                                  {.name = "b", .begin = 5, .end = 15, .thread = 2, .overlaps = true},
                                  {.name = "c", .begin = 12, .end = 20, .thread = 2, .overlaps = true}}));
  const auto threads = AlignedTimeline(spans).to_page()["processes"][0]["threads"];
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0]["spans"].size(), 2u);
}

}  // namespace
}  // namespace trireme::dash
