// Gradients travel while backward runs and while other gradients travel: seen in the timeline.

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

struct Span {
  std::string name;
  double begin = 0;  // microseconds
  double end = 0;
};

struct Picture {
  std::vector<Span> computing;   // forward and backward, by step
  std::vector<Span> travelling;  // buckets
};

/// What one worker's part of the timeline shows.
Picture read_timeline(const std::filesystem::path& path, const std::string& worker) {
  Picture picture;
  const auto file = nlohmann::json::parse(read_file(path));
  std::map<int, std::string> names;
  std::map<std::string, Span> open;
  std::map<int, Span> steps;
  for (const auto& event : file.at("traceEvents")) {
    const int process = event.at("pid");
    if (event.at("name") == "process_name") names[process] = event.at("args").at("name");
    if (event.at("ph") == "M" || !names[process].starts_with(worker + " ")) continue;
    const double at = event.at("ts").get<double>();
    const std::string name = event.at("name");
    if (event.at("ph") == "X" && (name == "forward" || name == "backward")) {
      const auto [step, fresh] = steps.try_emplace(event.at("args").at("step"), Span{"", at, at});
      step->second.end = std::max(step->second.end, at + event.at("dur").get<double>());
    }
    if (!name.starts_with("all-reduce bucket")) continue;
    if (event.at("ph") == "b") open[event.at("id")] = {name, at, at};
    if (event.at("ph") == "e") picture.travelling.push_back({name, open[event.at("id")].begin, at});
  }
  for (const auto& [number, span] : steps) picture.computing.push_back(span);
  return picture;
}

class Overlap : public ::testing::Test {
 protected:
  /// 30 steps, whose timeline goes to `run`.
  void train(const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> flags{"train",   "--data-dir", images_.string(), "--json", "--strategy", "allreduce",
                                   "--steps", "30",         "--batch",        "128",    "--workers",  "2",
                                   "--out",   run,          "--timeline"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run_trireme(folder_, flags);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }

  Picture timeline(const std::string& run) { return read_timeline(folder_ / run / "timeline.json", "worker 0"); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Overlap, BucketsLeaveWhileBackwardRuns) {
  train("plain", {});
  const Picture picture = timeline("plain");
  ASSERT_EQ(picture.computing.size(), 30u);
  const std::size_t buckets = picture.travelling.size() / 30;
  ASSERT_GE(buckets, 2u) << "a model of one bucket has nothing to overlap";
  std::size_t early = 0;
  for (std::size_t step = 0; step < 30; ++step) {
    if (picture.travelling[step * buckets].begin < picture.computing[step].end) ++early;
  }
  // One is proof: if they left after backward, there would be none. On a busy machine the other worker, or the thread
  // that sends, may be late in many steps.
  EXPECT_GT(early, 0u) << "steps of 30 in which the first bucket left before backward had ended";
}

TEST_F(Overlap, LatenciesOfBucketsDoNotAddUp) {
  constexpr double kLatency = 50'000;  // microseconds: longer than a backward pass
  train("late", {"--latency-ms", "50"});
  const Picture picture = timeline("late");
  ASSERT_EQ(picture.computing.size(), 30u);
  const std::size_t buckets = picture.travelling.size() / 30;
  ASSERT_GE(buckets, 2u);
  std::size_t together = 0;
  for (std::size_t step = 0; step < 30; ++step) {
    const Span& first = picture.travelling[step * buckets];
    const Span& last = picture.travelling[(step + 1) * buckets - 1];
    EXPECT_GE(first.begin, picture.computing[step].begin + kLatency) << "the latency is there";
    if (last.begin < first.begin + kLatency) ++together;
  }
  // One is proof: if latencies added up, there would be none. On a busy machine a worker may be late in many steps.
  EXPECT_GT(together, 0u) << "steps of 30 in which no bucket waited for another's latency";
}

}  // namespace
}  // namespace trireme::system_test
