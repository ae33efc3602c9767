#include "observe/timeline.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/support/temp_folder.h"

namespace trireme::observe {
namespace {

using Time = Deadline::Clock::time_point;

class TimelineTest : public ::testing::Test {
 protected:
  nlohmann::json merged() {
    merge_timeline(run_);
    return nlohmann::json::parse(read_file(run_.timeline()));
  }

  std::vector<nlohmann::json> events(const std::string& kind) {
    const nlohmann::json file = merged();
    std::vector<nlohmann::json> found;
    for (const auto& event : file.at("traceEvents")) {
      if (event.at("ph") == kind) found.push_back(event);
    }
    return found;
  }

  /// A part as another process left it.
  void write_part(const std::string& name, const std::string& lines) {
    std::filesystem::create_directories(run_.timeline_parts());
    std::ofstream(run_.timeline_parts() / name) << lines;
  }

  TempFolder folder_;
  const RunFolder run_ = RunFolder::create({.path = folder_ / "run"});
};

TEST_F(TimelineTest, WritesSpansAsTraceEvents) {
  {
    Timeline timeline(run_, "worker 3", 71);
    const Time start = Deadline::Clock::now();
    timeline.add({.name = "backward", .begin = start, .end = start + 2ms, .step = 7});
    timeline.add({.name = "all-reduce", .begin = start + 1ms, .end = start + 4ms, .step = 7, .overlaps = true});
  }
  const auto spans = events("X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].at("name"), "backward");
  EXPECT_EQ(spans[0].at("args").at("step"), 7);
  EXPECT_NEAR(spans[0].at("dur").get<double>(), 2000, 1);
  const auto begins = events("b");
  const auto ends = events("e");
  ASSERT_EQ(begins.size(), 1u);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(begins[0].at("id"), ends[0].at("id"));
  EXPECT_NEAR(begins[0].at("ts").get<double>() - spans[0].at("ts").get<double>(), 1000, 1);
  EXPECT_NEAR(ends[0].at("ts").get<double>() - begins[0].at("ts").get<double>(), 3000, 1);
  EXPECT_EQ(events("M")[0].at("args").at("name"), "worker 3 (pid 71)");
  EXPECT_EQ(merged().at("left_out"), 0);
}

TEST_F(TimelineTest, AScopedSpanLastsAsLongAsItsScope) {
  {
    Timeline timeline(run_, "worker 0", 1);
    const ScopedSpan span(&timeline, "forward", 2);
    const ScopedSpan nothing(nullptr, "unseen");
  }
  const auto spans = events("X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].at("name"), "forward");
  EXPECT_GE(spans[0].at("dur").get<double>(), 0);
}

TEST_F(TimelineTest, ProcessesOfOneBootShareAClockWhateverTheirWallClocksSaid) {
  write_part("worker-0-5.jsonl", R"({"process":"worker 0","pid":5,"boot":"a","offset":1000000,"since":1})"
                                 "\n"
                                 R"({"name":"push","tid":5,"begin":1000,"end":2000,"step":1})"
                                 "\n");
  write_part("server-0-6.jsonl",  // started after the wall clock had been put back by a millisecond
             R"({"process":"server 0","pid":6,"boot":"a","offset":0,"since":2})"
             "\n"
             R"({"name":"update","tid":6,"begin":3000,"end":4000,"step":1})"
             "\n");
  write_part("worker-0-7.jsonl",  // after a reboot
             R"({"process":"worker 0","pid":7,"boot":"b","offset":9000000,"since":3})"
             "\n"
             R"({"name":"push","tid":7,"begin":1000,"end":2000,"step":2})"
             "\n");
  const auto spans = events("X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].at("ts"), 1001);
  EXPECT_EQ(spans[1].at("ts"), 9001) << "the second process of worker 0";
  EXPECT_EQ(spans[2].at("ts"), 1003);
  EXPECT_NE(spans[0].at("pid"), spans[1].at("pid"));
}

TEST_F(TimelineTest, LinesThatWereCutOffAreLeftOut) {
  write_part("worker-0-5.jsonl", R"({"process":"worker 0","pid":5,"boot":"a","offset":0,"since":1})"
                                 "\n"
                                 R"({"name":"push","tid":5,"begin":1000,"end":2000})"
                                 "\n"
                                 R"({"name":"pull","tid":5,"beg)");
  write_part("worker-1-6.jsonl", "");
  const auto spans = events("X");
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_TRUE(spans[0].at("args").empty()) << "it belongs to no step";
}

TEST_F(TimelineTest, WithoutRecordingsThereIsNoFile) {
  merge_timeline(run_);
  EXPECT_FALSE(std::filesystem::exists(run_.timeline()));
}

}  // namespace
}  // namespace trireme::observe
