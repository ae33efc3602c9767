// What a run tells of itself is true: rows of metrics, results, the status.

#include <algorithm>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class Numbers : public ::testing::Test {
 protected:
  /// 35 steps, unless `more` says how many.
  Flags flags(const std::string& run, const Flags& more = {}) const {
    Flags all{"train", "--json", "--data-dir", images_.string(), "--out", path(run), "--lanes", "2", "--batch", "32"};
    if (std::ranges::find(more, "--steps") == more.end()) all.insert(all.end(), {"--steps", "35"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  json train(const std::string& run, const Flags& more = {}) {
    const Outcome outcome = run_trireme(folder_, flags(run, more));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.json();
  }

  /// Trains until `step` is reported, and kills everybody.
  void train_and_kill(const std::string& run, const std::string& step, const Flags& more) {
    Program launcher(folder_, trireme(flags(run, more)));
    EXPECT_TRUE(eventually(
        [&] { return !rows(run, "train").empty() && rows(run, "train").back().at("step") >= std::stoi(step); }));
    const std::vector<pid_t> all = descendants(launcher.pid());
    launcher.send(SIGKILL);  // first: it would replace the others
    for (const pid_t process : all) ::kill(process, SIGKILL);
    launcher.wait();
    for (const pid_t process : all) EXPECT_TRUE(eventually([&] { return is_gone(process); }));
  }

  /// The rows of a kind, without what differs between equal runs.
  std::vector<json> rows(const std::string& run, const std::string& kind) const {
    std::vector<json> all;
    std::ifstream file(folder_ / run / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      json row = json::parse(line, nullptr, false);
      if (!row.is_object() || row.value("kind", "") != kind) continue;
      all.push_back(row);
    }
    return all;
  }

  std::vector<json> comparable(const std::string& run) const {
    std::vector<json> all = rows(run, "train");
    for (json& row : all) {
      for (const char* key : {"time", "seconds", "interval_s", "samples_per_s", "strategy"}) row.erase(key);
    }
    return all;
  }

  static std::vector<int> steps_of(const std::vector<json>& rows) {
    std::vector<int> steps;
    for (const json& row : rows) steps.push_back(row.at("step"));
    return steps;
  }

  std::string path(const std::string& run) const { return (folder_ / run).string(); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Numbers, RowsAreOfExactStepsAndEqualForEqualRuns) {
  train("one", {"-w", "1", "-s", "1"});
  train("two", {"-w", "2", "-s", "1"});
  train("without-servers", {"-w", "2", "--strategy", "allreduce"});
  EXPECT_THAT(steps_of(rows("one", "train")), ElementsAre(10, 20, 30, 35));
  EXPECT_EQ(comparable("two"), comparable("one"));
  EXPECT_EQ(comparable("without-servers"), comparable("one"));
  EXPECT_EQ(rows("one", "train").back().at("samples"), rows("two", "train").back().at("samples"));
}

TEST_F(Numbers, AsynchronousRowsAreOfExactStepsToo) {
  train("asp", {"-w", "2", "-s", "1", "--consistency", "asp"});
  EXPECT_THAT(steps_of(rows("asp", "train")), ElementsAre(10, 20, 30, 35));
}

TEST_F(Numbers, AResumedRunGoesOnCounting) {
  const Flags slow{"-w", "2", "--strategy", "allreduce", "--checkpoint-every", "20", "--step-ms", "30"};
  train("whole", {"-w", "2", "--strategy", "allreduce"});
  train_and_kill("killed", "20", slow);
  const Outcome resumed = run_trireme(folder_, {"resume", path("killed"), "--json", "--workers", "1"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(comparable("killed"), comparable("whole")) << "the same rows, none twice";
  double before = 0;
  for (const json& row : rows("killed", "train")) {
    EXPECT_GT(row.at("seconds"), before) << row;
    before = row.at("seconds");
  }
  const json result = resumed.json();
  EXPECT_EQ(result.at("samples"), 35 * 32);
  EXPECT_GT(result.at("seconds"), rows("killed", "train")[1].at("seconds")) << "of all launches";
  EXPECT_LE(result.at("samples_per_s"), 32 / 0.03) << "a step takes 30 ms: the speed is that of this launch";
}

TEST_F(Numbers, AFinishedRunHasNothingLeftToDo) {
  const json result = train("done", {"-w", "1", "-s", "1"});
  const Outcome again = run_trireme(folder_, {"resume", path("done")});
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.out, AllOf(HasSubstr("nothing left to do"), HasSubstr("its 35 steps"), HasSubstr("--steps 70")));
  const Outcome as_json = run_trireme(folder_, {"resume", path("done"), "--json"});
  EXPECT_EQ(as_json.json().at("parameters_sha256"), result.at("parameters_sha256"));
  const Outcome more = run_trireme(folder_, {"resume", path("done"), "--json", "--steps", "40"});
  EXPECT_EQ(more.json().at("steps"), 40);
}

TEST_F(Numbers, StatusOfARunThatGoesOnNamesItsProcesses) {
  Program launcher(folder_, trireme(flags("run", {"-w", "2", "-s", "1", "--step-ms", "100", "--steps", "1000"})));
  const pid_t worker =
      wait_for_member(launcher.pid(), "worker", 1, folder_ / "run", WantedEvent{"servers_attached", {}});
  ASSERT_GT(worker, 0);
  const Outcome text = run_trireme(folder_, {"status", path("run")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("2 of 2 workers and 1 of 1 servers"), HasSubstr(std::to_string(worker)),
                              HasSubstr("127.0.0.1")));
  const json status = run_trireme(folder_, {"status", path("run"), "--json"}).json();
  EXPECT_EQ(status.at("state"), "running");
  EXPECT_EQ(status.at("workers").at(1).at("pid"), worker);
  EXPECT_EQ(status.at("servers").at(0).at("host"), "127.0.0.1");
  EXPECT_EQ(run_trireme(folder_, {"stop", path("run")}).status, 0);
  launcher.wait();
  const Outcome stopped = run_trireme(folder_, {"status", path("run")});
  EXPECT_THAT(stopped.out, AllOf(HasSubstr("stopped: "), HasSubstr("trireme resume")));
}

TEST_F(Numbers, StatusOfARunThatHasEndedTellsItsResultOrHowToGoOn) {
  const json result = train("done", {"-w", "1", "-s", "1"});
  const Outcome done = run_trireme(folder_, {"status", path("done")});
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("finished: 35 steps"), HasSubstr("test_accuracy")));
  const json as_json = run_trireme(folder_, {"status", path("done"), "--json"}).json();
  EXPECT_EQ(as_json.at("state"), "finished");
  EXPECT_EQ(as_json.at("result").at("parameters_sha256"), result.at("parameters_sha256"));

  train_and_kill("killed", "10", {"-w", "1", "-s", "1", "--checkpoint-every", "5", "--step-ms", "30"});
  const Outcome killed = run_trireme(folder_, {"status", path("killed")});
  EXPECT_EQ(killed.status, 0) << killed.err;
  EXPECT_THAT(killed.out, AllOf(HasSubstr("interrupted"), HasSubstr("checkpoint is of step"),
                                HasSubstr("trireme resume " + path("killed"))));
  EXPECT_EQ(run_trireme(folder_, {"status", path("nothing")}).status, 2);
}

TEST_F(Numbers, StatusOfAProgramSaysHowItEnded) {
  const auto run = [&](const std::string& out, const std::string& program) {
    return run_trireme(folder_, {"run", "-w", "2", "-s", "1", "--restarts", "0", "--out", path(out), "--", program});
  };
  EXPECT_EQ(run("tables", TRIREME_BINARY_DIR "/parameter_server").status, 0);
  EXPECT_THAT(run_trireme(folder_, {"status", path("tables")}).out, HasSubstr("finished"));
  EXPECT_GT(run("false", "/bin/false").status, 0);
  EXPECT_THAT(run_trireme(folder_, {"status", path("false")}).out, AllOf(HasSubstr("failed"), HasSubstr("because: ")));
}

}  // namespace
}  // namespace trireme::system_test
