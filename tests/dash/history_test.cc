#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dash/log_lines.h"
#include "dash/run_history.h"
#include "tests/support/temp_folder.h"

namespace trireme::dash {
namespace {

using testing::ElementsAre;

void append(const std::filesystem::path& file, const std::string& text) { std::ofstream(file, std::ios::app) << text; }

LogLine line_of(const std::string& text, const std::string& level = "info") {
  return {.time = parse_time(text).value_or(0), .process = "master", .level = level, .text = text};
}

TEST(LogLines, ParsesAnEvent) {
  const auto event = parse_event(line_of(
      "2026-03-01T09:15:02.125Z info    [master] formed a view event=view_formed view=3 workers=2 rebalanced=false "
      "reason=\"worker 1 (pid 7) \\\"died\\\"\\n\" empty=\"\""));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->key, "view_formed");
  EXPECT_EQ(event->message, "formed a view");
  EXPECT_EQ(event->number("view"), 3);
  EXPECT_EQ(event->text("reason"), "worker 1 (pid 7) \"died\"\n");
  EXPECT_EQ(event->text("empty"), "");
  EXPECT_EQ(event->text("nothing"), "");
  EXPECT_EQ(event->time, 1772356502.125);
}

TEST(LogLines, WhatIsNoEventIsNone) {
  EXPECT_FALSE(parse_event({.text = "event=view_formed printed by a program"}));
  EXPECT_FALSE(parse_event(line_of("2026-03-01T09:15:02.125Z info    [master] no key")));
  EXPECT_FALSE(parse_time("2026-03-01 09:15:02.125Z"));
  EXPECT_FALSE(parse_time("2026-03-0xT09:15:02.125Z"));
  EXPECT_FALSE(parse_time(""));
}

TEST(LogLines, MergesByTimeAndFollows) {
  const TempFolder folder;
  append(folder / "worker-0.log", "2026-03-01T09:15:02.000Z info    [worker 0] a event=a\nprinted\n");
  append(folder / "master.log",
         "2026-03-01T09:15:01.000Z info    [master] b event=b\n2026-03-01T09:15:03.000Z warning [master] c event=c\n");
  LogLines lines(folder.path());
  std::vector<std::string> texts;
  for (const LogLine& line : lines.next()) texts.push_back(line.process + "|" + line.level);
  EXPECT_THAT(texts, ElementsAre("master|info", "worker 0|info", "worker 0|", "master|warning"));
  EXPECT_TRUE(lines.next().empty());
  append(folder / "worker-0.log", "half a");
  EXPECT_TRUE(lines.next().empty());
  append(folder / "worker-0.log", " line\n");
  append(folder / "server-1.log", "new\n");
  const auto more = lines.next();
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[0].process, "server 1");
  EXPECT_EQ(more[1].text, "half a line");
}

TEST(LogLines, EventsOnlyLeavesTheRestOut) {
  const TempFolder folder;
  append(folder / "worker-0.log", "printed\n2026-03-01T09:15:02.000Z info    [worker 0] a event=a\n");
  LogLines lines(folder.path(), /*events_only=*/true);
  EXPECT_EQ(lines.next().size(), 1u);
}

TEST(LogLines, OfALongLogTheEndIsRead) {
  const TempFolder folder;
  for (int i = 0; i < 100; ++i) append(folder / "worker-0.log", fmt::format("line {:02}\n", i));
  LogLines recent(folder.path(), /*events_only=*/false, /*most=*/20);  // bytes: two lines and a half
  std::vector<std::string> texts;
  for (const LogLine& line : recent.next()) texts.push_back(line.text);
  EXPECT_THAT(texts, ElementsAre("line 98", "line 99"));
  append(folder / "worker-0.log", "a line longer than that\n");
  EXPECT_EQ(recent.next().at(0).text, "a line longer than that");
  EXPECT_EQ(LogLines(folder.path(), false, /*most=*/40).next().at(0).text, "line 98") << "the cut is between lines";
}

TEST(LogLines, AllOfALogIsReadHoweverLongItIs) {
  const TempFolder folder;
  {
    std::ofstream out(folder / "worker-0.log");
    for (int i = 0; i < 3; ++i) out << std::string(23 << 20, 'x') << '\n';  // longer than any line is kept whole
    out << "last\n";
  }
  LogLines lines(folder.path());
  const auto all = lines.next();
  std::size_t bytes = 0;
  for (const LogLine& line : all) bytes += line.text.size();
  EXPECT_EQ(bytes, (std::size_t{69} << 20) + 4);
  EXPECT_EQ(all.back().text, "last");
  EXPECT_TRUE(lines.next().empty());
}

LogEvent event(double time, const std::string& key, std::map<std::string, std::string> fields,
               const std::string& process = "master") {
  return {.time = time, .process = process, .level = "info", .message = key, .key = key, .fields = std::move(fields)};
}

TEST(RunHistory, ViewsHaveReasonsAndRecoveries) {
  RunHistory history;
  EXPECT_TRUE(std::isnan(history.goodput(5)));
  history.add(
      event(100, "view_formed", {{"view", "1"}, {"workers", "3"}, {"servers", "2"}, {"reason", "all are here"}}));
  history.add(event(150, "member_lost", {{"member", "worker 1"}, {"reason", "it died"}}));
  EXPECT_NEAR(history.goodput(160), 1 - 10.0 / 60, 1e-9);  // nothing is computed since
  history.add(
      event(152, "view_formed", {{"view", "2"}, {"workers", "2"}, {"servers", "2"}, {"reason", "worker 1 died"}}));
  history.add(event(155, "training_continued", {{"view", "2"}, {"seconds", "5"}}));
  EXPECT_NEAR(history.goodput(200), 0.95, 1e-9);
  ASSERT_EQ(history.views().size(), 2u);
  EXPECT_FALSE(history.views()[0].recovery_s);
  EXPECT_EQ(history.views()[1].recovery_s, 5.0);
  EXPECT_EQ(history.views()[1].reason, "worker 1 died");
  history.add(event(200, "job_finished", {}));
  EXPECT_NEAR(history.goodput(1e6), 0.95, 1e-9);  // the end counts, not today
  const auto told = history.to_json();
  EXPECT_EQ(told["recoveries"], 1);
  EXPECT_EQ(told["views"][1]["recovery_s"], 5.0);
  EXPECT_EQ(told["events"].size(), 5u);
}

TEST(RunHistory, AnotherLaunchBeginsAnew) {
  RunHistory history;
  history.add(event(100, "view_formed", {{"view", "1"}}));
  history.add(event(110, "member_lost", {}));
  history.add(event(200, "view_formed", {{"view", "1"}}));
  EXPECT_EQ(history.goodput(210), 1.0);
}

TEST(RunHistory, Checkpoints) {
  RunHistory history;
  history.add(event(10, "checkpoint_written",
                    {{"step", "20"}, {"bytes", "1e6"}, {"pause_s", "0.1"}, {"seconds", "0.5"}}, "worker 0"));
  history.add(event(20, "checkpoint_failed", {{"step", "40"}, {"reason", "disk full"}}, "worker 0"));
  ASSERT_EQ(history.checkpoints().size(), 2u);
  EXPECT_EQ(history.checkpoints()[0].bytes, 1e6);
  EXPECT_EQ(history.checkpoints()[1].failure, "disk full");
  EXPECT_EQ(history.last_checkpoint(), 10);
}

}  // namespace
}  // namespace trireme::dash
