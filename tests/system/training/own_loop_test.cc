// A loop of one's own under `trireme run`, as a user has it (examples/own_loop.cc): its processes are killed, join,
// leave, and all die; it ends with the parameters of a run in which nothing happened.

#include <signal.h>

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/random.h"
#include "checkpoint/list.h"
#include "observe/step_trace.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class OwnLoop : public ::testing::Test {
 protected:
  /// One thread each, however many cores there are: the bits depend on it.
  const Program::Environment env_{{"OPENBLAS_NUM_THREADS", "1"}};

  /// It would go on for hours: it is disturbed enough, and asked to stop, however fast the machine is.
  std::vector<std::string> run(const std::string& out, const std::string& workers,
                               const std::string& steps = "1000000") const {
    return trireme({"run", "-w", workers, "--trace-steps", "--restarts", "20", "--out", (folder_ / out).string(), "--",
                    TRIREME_BINARY_DIR "/own_loop", images_.string(), steps});
  }

  /// The line of the chief that begins with `word`; the one that was the chief at the end printed it.
  std::string line(const std::string& out, const std::string& word) const {
    std::string found;
    for (const auto& log : std::filesystem::directory_iterator(folder_ / out / "logs")) {
      if (const std::string line = last_line(read_file(log.path()), word); !line.empty()) found = line;
    }
    return found;
  }

  /// Waits until `more` further steps took effect; for ASSERT_TRUE.
  ::testing::AssertionResult advances(Step more) {
    const Step goal = steps_made() + more;
    if (eventually([&] { return steps_made() >= goal; })) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "step " << goal << " was not made, only " << made_;
  }

  Step steps_made() {
    for (const observe::StepEvent& event : trace_.next()) {
      if (event.kind == observe::StepEvent::Kind::kCommit) made_ = std::max(made_, event.step + 1);
      if (event.kind == observe::StepEvent::Kind::kCommit && event.step == 0) ++first_steps_;
    }
    return made_;
  }

  std::string master_log() const { return read_file(folder_ / "run" / "logs" / "master.log"); }

  ::testing::AssertionResult has_workers(int count, std::size_t times = 1) const {
    const WantedEvent formed{"view_formed", {{"workers", count}}};
    if (eventually([&] { return count_events(master_log(), formed) >= times; })) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "no view of " << count << " workers\n" << master_log();
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  observe::TraceFollower trace_{folder_ / "run"};
  Step made_ = 0;
  std::size_t first_steps_ = 0;  // how often workers made step 0
};

TEST_F(OwnLoop, SurvivesKillsAJoinALeaveAndTheEndOfAll) {
  {
    Program job(folder_, run("run", "3"), env_);
    RandomStream random(3);
    for (int kill = 0; kill < 10; ++kill) {
      ASSERT_TRUE(advances(2 + random.below(5)));
      const pid_t victim = wait_for_member(job.pid(), "worker", static_cast<int>(random.below(3)), folder_ / "run", {});
      ASSERT_GT(victim, 0) << job.err();
      ::kill(victim, SIGKILL);
    }
    ASSERT_EQ(run_trireme(folder_, {"scale", (folder_ / "run").string(), "4"}).status, 0);
    ASSERT_TRUE(has_workers(4));
    ASSERT_TRUE(advances(5));
    const pid_t leaver = wait_for_member(job.pid(), "worker", 1, folder_ / "run", {});
    ::kill(leaver, SIGTERM);
    ASSERT_TRUE(eventually([&] { return is_gone(leaver); }));
    EXPECT_THAT(master_log(), HasEvent("member_left", {{"member", "worker 1"}}));
    const auto checkpoints = folder_ / "run" / "checkpoints";
    ASSERT_TRUE(eventually([&] { return checkpoint::latest_complete(checkpoints).has_value(); })) << job.err();
    const std::vector<pid_t> all = descendants(job.pid());
    job.send(SIGKILL);
    job.wait();
    for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
  }
  const Outcome refused = run_trireme(folder_, {"resume", (folder_ / "run").string(), "--momentum", "0"});
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.err, HasSubstr("--momentum is a flag of 'trireme train'"));
  Program again(folder_, trireme({"resume", (folder_ / "run").string(), "-w", "2"}), env_);
  ASSERT_TRUE(advances(10));
  again.send(SIGTERM);
  const Outcome resumed = again.wait();
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const std::string disturbed = line("run", "parameters");
  const std::string words = "after ";
  ASSERT_THAT(disturbed, HasSubstr(words));
  const auto steps = std::to_string(std::stoull(disturbed.substr(disturbed.find(words) + words.size())));
  const Outcome calm = Program(folder_, run("calm", "1", steps), env_).wait();
  ASSERT_EQ(calm.status, 0) << calm.err;
  EXPECT_EQ(disturbed, line("calm", "parameters")) << "parameters, steps and samples are those of the calm run";
}

TEST_F(OwnLoop, ReportsAndStopsWhenAsked) {
  std::vector<std::string> words = run("run", "2");
  words.insert(std::ranges::find(words, "--out"), "--json");
  Program job(folder_, words, env_);
  const auto metrics = folder_ / "run/metrics.jsonl";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(metrics) && !read_file(metrics).empty(); })) << job.err();
  Outcome status;
  EXPECT_TRUE(eventually([&] {
    status = run_trireme(folder_, {"status", (folder_ / "run").string()});
    return status.out.find(", loss ") != std::string::npos;
  })) << status.out
      << status.err;
  const Outcome stop = run_trireme(folder_, {"stop", (folder_ / "run").string()});
  EXPECT_THAT(stop.out, HasSubstr("ends after its current step"));
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const nlohmann::json result = outcome.json();
  EXPECT_GE(result.at("steps"), 20) << result;
  EXPECT_EQ(result.at("stopped_because"), "asked to stop");
  EXPECT_EQ(result.at("run"), (folder_ / "run").string());
  Step before = 0;
  std::istringstream rows(read_file(metrics));
  for (std::string line; std::getline(rows, line); before += 20) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("step"), before + 20) << "each once";
    EXPECT_EQ(result.at("metrics").contains("loss"), row.contains("loss"));
  }
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "run/tensorboard"));
}

TEST_F(OwnLoop, OptionsOfATrainerAreRefused) {
  const Outcome outcome = run_trireme(
      folder_, {"run", "-w", "1", "--codec", "fp16", "--", TRIREME_BINARY_DIR "/own_loop", images_.string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("--codec fp16: that is for programs with a Trainer"));
}

/// A program with a Trainer of its own (examples/fashion_mnist.cc), which knows nothing of these flags.
TEST_F(OwnLoop, ATrainerProgramIsScaledKilledAndResumed) {
  const std::string run = (folder_ / "run").string();
  const auto command = [&](const std::string& out, const std::string& workers, const std::string& steps) {
    return trireme({"run",
                    "-w",
                    workers,
                    "--strategy",
                    "allreduce",
                    "--lanes",
                    "2",
                    "--schedule",
                    "constant",
                    "--steps",
                    steps,
                    "--checkpoint-every",
                    "10",
                    "--threads",
                    "1",
                    "--trace-steps",
                    "--out",
                    (folder_ / out).string(),
                    "--",
                    TRIREME_BINARY_DIR "/fashion_mnist",
                    images_.string()});
  };
  {
    Program job(folder_, command("run", "2", "1000000"), env_);
    ASSERT_TRUE(advances(5));
    const auto plan = run_trireme(folder_, {"status", run, "--json"}).json().at("plan");
    EXPECT_EQ(plan.at("strategy"), "allreduce");
    EXPECT_EQ(plan.at("lanes"), 2);
    EXPECT_EQ(plan.at("steps"), 1000000);
    const Outcome many = run_trireme(folder_, {"scale", run, "99"});
    EXPECT_NE(many.status, 0);
    EXPECT_THAT(many.err, HasSubstr("use 4 at most"));
    ASSERT_EQ(run_trireme(folder_, {"scale", run, "1"}).status, 0);
    ASSERT_TRUE(has_workers(1));
    EXPECT_THAT(master_log(), HasEvent("member_left", {{"member", "worker 1"}}));
    EXPECT_THAT(master_log(), Not(HasEvent("member_lost"))) << "it left, it did not die";
    const auto checkpoints = folder_ / "run" / "checkpoints";
    ASSERT_TRUE(eventually([&] { return checkpoint::latest_complete(checkpoints).has_value(); })) << job.err();
    const std::vector<pid_t> all = descendants(job.pid());
    job.send(SIGKILL);
    job.wait();
    for (const pid_t pid : all) EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
  }
  for (const std::vector<std::string>& words :
       {trireme({"resume", run, "-w", "2"}), trireme({"run", "--resume", "--out", run})}) {
    Program job(folder_, words, env_);
    ASSERT_TRUE(advances(10)) << job.err();
    job.send(SIGINT);
    const Outcome outcome = job.wait();
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(first_steps_, 2u) << "two workers made it once; no launch began again";
  }
  const auto result = [&](const std::string& out) {
    return nlohmann::json::parse(read_file(folder_ / out / "result.json"));
  };
  const auto steps = std::to_string(result("run").at("steps").get<Step>());
  ASSERT_EQ(Program(folder_, command("calm", "1", steps), env_).wait().status, 0);
  EXPECT_EQ(result("run").at("parameters_sha256"), result("calm").at("parameters_sha256"));
}

}  // namespace
}  // namespace trireme::system_test
