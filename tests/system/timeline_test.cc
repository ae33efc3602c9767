// `--timeline`: one file that shows what every process of a run did when, whatever happened to them.

#include <signal.h>

#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/types.h"

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::IsSupersetOf;

struct Span {
  std::string name;
  std::string process;  // "worker 0"
  int pid = 0;          // of the display: restarted processes have another one
  std::int64_t thread = 0;
  double begin = 0;  // microseconds
  double end = 0;
  std::optional<Step> step;
};

std::vector<Span> read_spans(const std::filesystem::path& path) {
  const auto file = nlohmann::json::parse(read_file(path));
  std::map<int, std::string> processes;
  std::vector<Span> spans;
  for (const auto& event : file.at("traceEvents")) {
    const std::string name = event.at("name");
    if (name == "process_name") {
      const std::string process = event.at("args").at("name");
      processes[event.at("pid")] = process.substr(0, process.find(" ("));
    }
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts");
    spans.push_back({name, processes.at(event.at("pid")), event.at("pid"), event.at("tid"), begin,
                     begin + event.at("dur").get<double>(), std::nullopt});
    if (event.at("args").contains("step")) spans.back().step = event.at("args").at("step").get<Step>();
  }
  return spans;
}

std::set<std::string> kinds_of(const std::vector<Span>& spans, const std::string& process, bool with_step) {
  std::set<std::string> kinds;
  for (const Span& span : spans) {
    if (span.process == process && (span.step || !with_step)) kinds.insert(span.name);
  }
  return kinds;
}

/// What a thread does begins and ends within whatever it does at that time.
void expect_nested(std::vector<Span> spans) {
  constexpr double kRounding = 0.5;  // microseconds: the time of day in them leaves no more digits
  std::ranges::sort(spans, {}, [](const Span& span) { return std::tuple(span.begin, -span.end); });
  std::map<std::pair<int, std::int64_t>, std::vector<Span>> open;
  for (const Span& span : spans) {
    auto& outer = open[{span.pid, span.thread}];
    while (!outer.empty() && outer.back().end <= span.begin + kRounding) outer.pop_back();
    if (!outer.empty()) {
      EXPECT_LE(span.end, outer.back().end + kRounding)
          << span.process << ": " << span.name << " ends after " << outer.back().name << ", in which it begins";
    }
    outer.push_back(span);
  }
}

class Timelines : public ::testing::Test {
 protected:
  std::vector<std::string> train(std::vector<std::string> more) const {
    std::vector<std::string> words{
        "train",      "--data-dir", images_.string(),          "--json", "--batch", "32", "-w", "2",
        "--timeline", "--out",      (folder_ / "run").string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::vector<Span> spans() const { return read_spans(folder_ / "run" / "timeline.json"); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Timelines, ShowWhatWorkersAndServersDoInEachStep) {
  const Outcome outcome = run_trireme(folder_, train({"-s", "1", "--epochs", "2", "--checkpoint-every", "10"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto all = spans();
  const std::vector<std::string> of_steps{"step", "forward", "backward", "push", "wait", "pull"};
  for (const std::string worker : {"worker 0", "worker 1"}) {
    EXPECT_THAT(kinds_of(all, worker, /*with_step=*/true), IsSupersetOf(of_steps)) << worker;
  }
  EXPECT_THAT(kinds_of(all, "worker 0", true), IsSupersetOf({"evaluation", "checkpoint"})) << "the chief";
  EXPECT_THAT(kinds_of(all, "server 0", true), IsSupersetOf({"push", "update", "checkpoint"}));
  expect_nested(all);

  // Each step is there, and, on the clock that all share, no update before its gradients and no wait that ends before
  // it.
  std::map<Step, std::pair<double, double>> updates;  // first begin, last end
  std::map<std::string, std::set<Step>> steps;
  for (const Span& span : all) {
    if (span.name == "step") steps[span.process].insert(*span.step);
    if (span.name != "update") continue;
    const auto [update, fresh] = updates.try_emplace(*span.step, span.begin, span.end);
    update->second.first = std::min(update->second.first, span.begin);
    update->second.second = std::max(update->second.second, span.end);
  }
  EXPECT_EQ(updates.size(), 40u);
  EXPECT_EQ(steps["worker 0"].size(), 40u);
  EXPECT_EQ(steps["worker 1"].size(), 40u);
  for (const Span& span : all) {
    if (!span.step || !updates.contains(*span.step)) continue;
    if (span.name == "forward") {
      EXPECT_LE(span.begin, updates[*span.step].first) << span.process << ", step " << *span.step;
    }
    if (span.name == "wait") {
      EXPECT_GE(span.end, updates[*span.step].second) << span.process << ", step " << *span.step;
    }
  }
}

TEST_F(Timelines, HoldAllProcessesAfterARestartAndAResume) {
  Program job(folder_, trireme(train({"--strategy", "allreduce", "--steps", "1000000", "--step-ms", "10",
                                      "--checkpoint-every", "100"})));
  const auto run = folder_ / "run";
  const pid_t victim = wait_for_member(job.pid(), "worker", 1, run, WantedEvent{"group_formed", {}});
  ASSERT_NE(victim, 0);
  const auto recorded = run / "timeline" / fmt::format("worker-1-{}.jsonl", victim);
  ASSERT_TRUE(eventually(
      [&] { return std::filesystem::exists(recorded) && read_file(recorded).find("backward") != std::string::npos; }));
  ::kill(victim, SIGKILL);
  ASSERT_TRUE(eventually([&] {  // another process has come in its place, and has recorded something
    for (const auto& part : std::filesystem::directory_iterator(run / "timeline")) {
      const bool other = part.path() != recorded && part.path().filename().string().starts_with("worker-1-");
      if (other && read_file(part.path()).find("backward") != std::string::npos) return true;
    }
    return false;
  })) << job.err();
  job.send(SIGTERM);
  const Outcome stopped = job.wait();
  ASSERT_EQ(stopped.status, 0) << stopped.err;
  const Step steps = stopped.json().value("steps", Step{0});
  ASSERT_GT(steps, 0u);
  EXPECT_THAT(kinds_of(spans(), "worker 0", true),
              IsSupersetOf({"step", "forward", "backward", "wait", "update", "evaluation", "checkpoint"}));

  const Outcome resumed =
      run_trireme(folder_, {"resume", run.string(), "--steps", std::to_string(steps + 10), "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto all = spans();
  expect_nested(all);
  std::map<std::string, std::set<int>> processes;
  std::map<Step, double> began;
  for (const Span& span : all) {
    processes[span.process].insert(span.pid);
    if (span.name == "step" && span.process == "worker 0") began.emplace(*span.step, span.begin);
  }
  EXPECT_EQ(processes["worker 0"].size(), 2u) << "one in each launch";
  EXPECT_EQ(processes["worker 1"].size(), 3u) << "one of which was killed";
  EXPECT_EQ(began.size(), steps + 10);
  EXPECT_GT(began[steps], began[steps - 1]);
}

TEST_F(Timelines, InSspAndAspAllWorkersEvaluateTheSameParameters) {
  TempFolder more;
  const std::string images = make_images(more, 640, 1203).string();  // three blocks of at most 500
  for (const std::string consistency : {"asp", "ssp:2"}) {
    std::vector<std::string> words = train({"-s", "1", "--epochs", "3", "--consistency", consistency, "--overwrite"});
    *std::ranges::find(words, images_.string()) = images;
    const Outcome outcome = run_trireme(folder_, words);
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    std::map<std::string, std::set<Step>> evaluated;
    for (const Span& span : spans()) {
      if (span.name == "evaluation") evaluated[span.process].insert(*span.step);
    }
    for (const std::string worker : {"worker 0", "worker 1"}) {
      EXPECT_EQ(evaluated[worker], (std::set<Step>{20, 40, 60})) << worker << ", " << consistency;
    }
    const Outcome again = run_trireme(folder_, {"eval", (folder_ / "run").string(), "--json", "-w", "1"});
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(again.json().value("loss", 0.0), outcome.json().value("test_loss", -1.0)) << again.out;
  }
}

}  // namespace
}  // namespace trireme::system_test
