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

/// A process below `search` whose command line has `word`; 0 if there is none now.
pid_t find_process(pid_t search, const std::string& word) {
  for (const pid_t pid : descendants(search)) {
    if (words_of(pid).find(word) != std::string::npos) return pid;
  }
  return 0;
}

TEST_F(Tune, KilledFiveTimesItEndsWithTheTableOfAnUndisturbedOne) {
  const Outcome whole = run(search("whole"));
  ASSERT_EQ(whole.status, 0) << whole.out << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("trireme train "));
  EXPECT_THAT(read_file(folder_ / "whole" / "plot.svg"), HasSubstr("<circle"));

  const std::string worker = "trireme-worker", launcher("train\0", 6), master("\0master\0", 8), search_itself;
  const Words resume{"tune", "--resume", (folder_ / "killed").string(), "--json"};
  auto job = std::make_unique<Program>(folder_, trireme(search("killed")));
  for (const std::string& victim : {worker, search_itself, master, launcher, search_itself}) {
    std::vector<pid_t> all;
    pid_t found = 0;
    ASSERT_TRUE(eventually([&] {  // a trial is at work: a launcher, a master, a worker
      all = descendants(job->pid());
      found = victim.empty() ? job->pid() : find_process(job->pid(), victim);
      return found > 0 && find_process(job->pid(), worker) > 0;
    })) << job->out()
        << job->err();
    ::kill(found, SIGKILL);
    if (found != job->pid()) continue;
    EXPECT_EQ(job->wait().status, 128 + SIGKILL);
    EXPECT_TRUE(eventually([&] { return std::ranges::all_of(all, is_gone); })) << "processes are left behind";
    job = std::make_unique<Program>(folder_, trireme(resume));
  }
  const Outcome end = job->wait(120s);
  ASSERT_EQ(end.status, 0) << end.out << end.err;
  EXPECT_EQ(table("killed"), table("whole"));
  EXPECT_EQ(end.json()["trials"].size(), 6u);
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
