// `trireme tune`: a search that is killed ends as one that is not, and leaves nobody behind.

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

class Tune : public ::testing::Test {
 protected:
  /// Six learning rates, of which two go on: 5, then 15 steps.
  Words search(const std::string& out, const Words& flags = {}) const {
    Words words{"tune",
                "--data-dir",
                images_.string(),
                "--model",
                "mlp",
                "--strategy",
                "allreduce",
                "--steps",
                "15",
                "--batch",
                "32",
                "--threads",
                "1",
                "--space",
                "lr=log:1e-5:1e-1:6",
                "--parallel",
                "2",
                "--out",
                (folder_ / out).string()};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  Outcome run(const Words& words) { return run_trireme(folder_, words, {}, 120s); }

  std::string table(const std::string& out) const { return read_file(folder_ / out / "table.txt"); }

  TempFolder folder_;
  std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Tune, KilledSearchEndsWithTheTableOfAnUndisturbedOne) {
  const Outcome whole = run(search("whole"));
  ASSERT_EQ(whole.status, 0) << whole.out << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("trireme train "));
  EXPECT_THAT(read_file(folder_ / "whole" / "plot.svg"), HasSubstr("<circle"));

  std::vector<pid_t> left;
  {
    Program killed(folder_, trireme(search("killed")));
    const auto state = folder_ / "killed" / "tune.json";
    // A trial has come to a rung, and another one is at work: a launcher, a master, a worker.
    ASSERT_TRUE(eventually(
        [&] {
          left = descendants(killed.pid());
          return left.size() > 2 && std::filesystem::exists(state) &&
                 read_file(state).find("\"rung\"") != std::string::npos;
        },
        60s));
    killed.send(SIGKILL);
    EXPECT_EQ(killed.wait().status, 128 + SIGKILL);
  }
  EXPECT_TRUE(eventually([&] { return std::ranges::all_of(left, is_gone); }, 10s)) << "processes are left behind";
  const Outcome resumed = run({"tune", "--resume", (folder_ / "killed").string(), "--json"});
  ASSERT_EQ(resumed.status, 0) << resumed.out << resumed.err;
  EXPECT_EQ(table("killed"), table("whole"));
  EXPECT_EQ(resumed.json()["trials"].size(), 6u);
}

TEST_F(Tune, TrialWhoseLauncherIsKilledGoesOn) {
  Program search_with_kill(folder_, trireme(search("killed", {"--random", "--trials", "1", "--step-ms", "50"})));
  const auto run_folder = folder_ / "killed" / "trials" / "000";
  const auto trial = [&]() -> pid_t {
    for (const pid_t pid : descendants(search_with_kill.pid())) {
      const std::string words = read_file(fmt::format("/proc/{}/cmdline", pid));
      if (words.find(std::string("train\0", 6)) != std::string::npos) return pid;
    }
    return 0;
  };
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(run_folder / "metrics.jsonl") && trial() > 0; }, 60s));
  ::kill(trial(), SIGKILL);
  const Outcome outcome = search_with_kill.wait(120s);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("trained fully"));
}

TEST_F(Tune, WrongInputIsRefusedBeforeAnythingStarts) {
  const auto refused = [&](const Words& flags, const std::string& why) {
    Words words{"tune", "--data-dir", images_.string(), "--model", "mlp", "--out", (folder_ / "wrong").string()};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "wrong"));
  };
  refused({}, "--space");
  refused({"--space", "lrr=1|2"}, "did you mean 'lr'");
  refused({"--space", "lr=log:1"}, "log:<from>:<to>");
  refused({"--space", "lr=-1|1"}, "lr=-1");
  refused({"--space", "optimizer=adam|adamm"}, "adamm");
  refused({"--space", "batch=8|16", "--batch", "8"}, "--batch is in the space");
  refused({"--space", "lr=1|2", "--trials", "0"}, "--trials");
  refused({"--space", "lr=1|2", "--metric", "accurcy"}, "did you mean 'accuracy'");
  refused({"--space", "lr=1|2", "--metric", "rmse"}, "task classification has accuracy, loss");
  refused({"--space", "lr=1|2", "--asha", "--grid"}, "--grid");
  refused({"--space", "lr=1|2|3", "--rungs", "2", "--steps", "1"}, "too many");
  refused({"--space", "epochs=1|2"}, "--epochs itself");
  refused({"--resume", (folder_ / "wrong").string()}, "goes on as it began");
  const Outcome nothing = run({"tune", "--resume", (folder_ / "wrong").string()});
  EXPECT_EQ(nothing.status, 2) << nothing.out;
  EXPECT_THAT(nothing.err, HasSubstr("holds no search"));
}

}  // namespace
}  // namespace trireme::system_test
