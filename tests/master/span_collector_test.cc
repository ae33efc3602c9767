#include "master/span_collector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::master {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const SpanCollector::Time kAskedAt{};

TEST(SpanCollector, AsksEachMemberOnceAndNamesThoseThatDoNotAnswer) {
  SpanCollector collector;
  EXPECT_FALSE(collector.wanted(1).has_value());
  const std::uint64_t request = collector.ask({.count = 3}, {{1, "worker 0"}, {2, "server 0"}}, kAskedAt);
  EXPECT_EQ(collector.wanted(1), WantedSteps{.count = 3});
  EXPECT_EQ(collector.request(), request);
  EXPECT_FALSE(collector.wanted(5).has_value()) << "it came later";
  collector.add({.member = 1, .request = request, .process = "worker 0"});
  collector.add({.member = 1, .request = request, .process = "again"});
  EXPECT_FALSE(collector.wanted(1).has_value());
  const cluster::RecordedReply reply = collector.reply({.request = request, .index = 0});
  EXPECT_TRUE(reply.known);
  EXPECT_EQ(reply.answers, 1u);
  EXPECT_EQ(reply.report.process, "worker 0");
  EXPECT_THAT(reply.missing, ElementsAre("server 0"));
}

TEST(SpanCollector, ALaterRequestReplacesAnEarlierOne) {
  SpanCollector collector;
  const std::uint64_t first = collector.ask({.count = 3}, {{1, "worker 0"}}, kAskedAt);
  EXPECT_EQ(collector.ask({.count = 3}, {{1, "worker 0"}}, kAskedAt + 100ms), first) << "the same question";
  const std::uint64_t second = collector.ask({.count = 3}, {{1, "worker 0"}}, kAskedAt + 2s);
  EXPECT_GT(second, first);
  collector.add({.member = 1, .request = first});
  EXPECT_FALSE(collector.reply({.request = first}).known);
  EXPECT_EQ(collector.reply({.request = second}).answers, 0u);
  EXPECT_FALSE(SpanCollector().reply({.request = 0}).known);
}

TEST(SpanCollector, AllAreAskedAboutTheStepsOfTheFirstThatAnswers) {
  SpanCollector collector;
  const std::uint64_t request =
      collector.ask({.count = 3}, {{1, "worker 0"}, {2, "worker 1"}, {3, "worker 2"}}, kAskedAt);
  collector.add({.member = 1, .request = request});
  EXPECT_EQ(collector.wanted(2), WantedSteps{.count = 3}) << "it had nothing to tell";
  cluster::SpanReport report{.member = 2, .request = request};
  for (const Step step : {40, 42, 41}) report.recording.spans.push_back({.name = "step", .step = step});
  collector.add(report);
  EXPECT_EQ(collector.wanted(3), (WantedSteps{.count = 3, .until = 42}));
  collector.ask({.count = 3}, {{1, "worker 0"}}, kAskedAt + 2s);
  EXPECT_EQ(collector.wanted(1), WantedSteps{.count = 3}) << "another question";
}

TEST(SpanCollector, AllAreAskedAboutTheStepsThatAllHaveMadeHoweverSoonTheyAnswer) {
  SpanCollector collector;
  const WantedSteps steps{.count = 3, .until = 39};
  const std::uint64_t request = collector.ask(steps, {{1, "worker 0"}, {2, "worker 1"}}, kAskedAt);
  EXPECT_EQ(collector.wanted(1), steps);
  EXPECT_EQ(collector.wanted(2), steps) << "before the first report";
  cluster::SpanReport report{.member = 2, .request = request};
  report.recording.spans.push_back({.name = "step", .step = 42});
  collector.add(report);
  EXPECT_EQ(collector.wanted(1), steps);
}

TEST(CollectSpans, AsksForOneAfterTheOther) {
  SpanCollector collector;
  const std::uint64_t request = collector.ask({.count = 3}, {{1, "worker 0"}, {2, "worker 1"}}, kAskedAt);
  collector.add({.member = 1, .request = request, .process = "worker 0"});
  collector.add({.member = 2, .request = request, .process = "worker 1"});
  const auto all = cluster::collect_spans(request, [&](const auto& query) { return collector.reply(query); });
  ASSERT_EQ(all.reports.size(), 2u);
  EXPECT_EQ(all.reports[1].process, "worker 1");
  EXPECT_THAT(all.missing, IsEmpty());
}

}  // namespace
}  // namespace trireme::master
