#include "observe/timeline.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/random.h"

namespace trireme::observe {
namespace {

using namespace std::chrono_literals;

TEST(Timeline, WritesSpansAsTraceEvents) {
  Timeline timeline(3, "worker 3");
  const auto start = Timeline::Clock::now();
  timeline.add({"compute", "backward", start, start + 2ms});
  timeline.add({"network", "bucket 0", start + 1ms, start + 4ms});
  timeline.add({"compute", "update", start + 4ms, start + 5ms});
  const auto path = std::filesystem::temp_directory_path() / ("timeline-" + random_hex(8) + ".json");
  timeline.write(path);
  const auto file = nlohmann::json::parse(read_file(path));
  std::filesystem::remove(path);

  std::vector<nlohmann::json> spans;
  for (const auto& event : file.at("traceEvents")) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("ph") == "X") spans.push_back(event);
  }
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].at("name"), "backward");
  EXPECT_NEAR(spans[0].at("dur").get<double>(), 2000, 1e-3);
  EXPECT_NEAR(spans[1].at("ts").get<double>() - spans[0].at("ts").get<double>(), 1000, 1);
  EXPECT_EQ(spans[0].at("tid"), spans[2].at("tid"));
  EXPECT_NE(spans[0].at("tid"), spans[1].at("tid"));
  EXPECT_EQ(file.at("left_out"), 0);
}

TEST(Timeline, AScopedSpanLastsAsLongAsItsScope) {
  Timeline timeline(0, "worker 0");
  {
    const ScopedSpan span(&timeline, "compute", "forward");
    const ScopedSpan nothing(nullptr, "compute", "unseen");
  }
  const auto spans = timeline.spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_LE(spans[0].begin, spans[0].end);
}

}  // namespace
}  // namespace trireme::observe
