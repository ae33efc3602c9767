// What the consistency modes promise, shown by whole jobs of real processes.

#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/step_trace.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using Flags = std::vector<std::string>;

/// A run of LeNet that ends with JSON; `run` names its folder.
class Runs : public ::testing::Test {
 protected:
  nlohmann::json train(const Flags& flags, const std::string& run) {
    Flags all{"train", "--json", "--data-dir", images_.string(), "--out", (folder_ / run).string()};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run_trireme(folder_, all);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return outcome.json().is_object() ? outcome.json() : nlohmann::json::object();
  }

  std::string hash(const Flags& flags) {
    Flags all{"--lanes", "4", "--steps", "50", "--batch", "32"};
    all.insert(all.end(), flags.begin(), flags.end());
    const auto result = train(all, "hash-" + std::to_string(++runs_));
    EXPECT_EQ(result.value("steps", 0), 50);
    return result.value("parameters_sha256", "");
  }

  struct Shares {
    double lead = 0;                       ///< the largest that one worker had over another, in steps of its own
    std::map<std::uint32_t, int> commits;  ///< by worker: how much of the work took effect for it
  };

  /// Trains with a worker that computes `times` as long as the others: who did how much?
  Shares with_straggler(std::uint32_t straggler, Flags flags, int times = 10) {
    const std::string run = "slow-" + std::to_string(++runs_);
    const std::string slow = std::to_string(straggler) + ":" + std::to_string(times);
    flags.insert(flags.end(), {"--slow", slow, "--threads", "1", "--trace-steps"});
    const auto result = train(flags, run);
    Shares shares{.lead = result.value("clock_spread_max", -1.0), .commits = {}};
    for (const observe::StepEvent& event : observe::TraceFollower(folder_ / run).next()) {
      if (event.kind == observe::StepEvent::Kind::kCommit) ++shares.commits[event.slot];
    }
    return shares;
  }

  /// 40 steps of 2 lanes, by 2 workers of which the second is the straggler. Nobody waits for the slow one in order to
  /// evaluate, or to save.
  Shares two_with_straggler(const std::string& consistency, int times = 10) {
    return with_straggler(1,
                          {"--workers", "2", "--steps", "40", "--batch", "128", "--consistency", consistency,
                           "--checkpoint-every", "1000"},
                          times);
  }

 private:
  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  int runs_ = 0;
};

TEST_F(Runs, BspGivesTheSameBitsForAnyNumberOfWorkers) {
  const std::string alone = hash({"--workers", "1"});
  EXPECT_EQ(alone.size(), 64u);
  EXPECT_EQ(hash({"--workers", "2"}), alone);
  EXPECT_EQ(hash({"--workers", "3"}), alone);
  EXPECT_EQ(hash({"--workers", "4"}), alone);
  EXPECT_NE(hash({"--workers", "1", "--seed", "2"}), alone);
}

TEST_F(Runs, BspGivesTheSameBitsOnAnyServersOverAnyTransport) {
  const std::string usual = hash({"--workers", "2"});
  EXPECT_EQ(hash({"--workers", "2", "--servers", "2"}), usual);
  EXPECT_EQ(hash({"--workers", "2", "--servers", "3", "--transport", "tcp"}), usual);
  EXPECT_EQ(hash({"--workers", "2", "--transport", "tls"}), usual);
}

TEST_F(Runs, SspHoldsTheFastWorkerWithinItsLead) {
  const Shares ssp = two_with_straggler("ssp:4");
  EXPECT_GE(ssp.lead, 1) << "the fast worker never went ahead";
  EXPECT_LE(ssp.lead, 4);
}

/// Before a checkpoint all leased units are finished: a worker that is held back for its lead must not be waited for by
/// the slow one, which has nothing to do until then.
TEST_F(Runs, SspWithAStragglerGoesOnAfterEveryCheckpoint) {
  const Shares ssp = with_straggler(1, {"--workers", "2", "--steps", "40", "--batch", "16", "--consistency", "ssp:1",
                                        "--checkpoint-every", "4", "--step-ms", "5"});
  EXPECT_EQ(ssp.commits.at(0) + ssp.commits.at(1), 80);
}

TEST_F(Runs, AStragglerDoesHalfOfTheWorkInBspLessInSspAndLittleInAsp) {
  // A worker that is always slow is waited for in the end: what ssp gains are the steps of its lead. Of 80 pieces of
  // work the slow worker does 40 with bsp, (80 - 48) / 2 with ssp:48, and about 6 with asp: it is slower there, since
  // what a busy machine adds to each push and pull makes the other one slow, too.
  Shares bsp = two_with_straggler("bsp");
  Shares ssp = two_with_straggler("ssp:48");
  Shares asp = two_with_straggler("asp", 20);
  EXPECT_EQ(bsp.commits[0], 40);
  EXPECT_EQ(bsp.commits[1], 40);
  EXPECT_EQ(ssp.commits[0] + ssp.commits[1], 80);
  EXPECT_LT(ssp.commits[1], 32) << "the fast worker was held more than it must be";
  EXPECT_EQ(asp.commits[0] + asp.commits[1], 80);
  EXPECT_LT(asp.commits[1], 16) << "the fast worker was held";
  EXPECT_LE(ssp.lead, 48);
  EXPECT_GT(ssp.lead, 24) << "the fast worker was held more than it must be";
  EXPECT_GT(asp.lead, 48) << "the fast worker was held";
}

TEST_F(Runs, ABackupWorkerMakesUpForAStraggler) {
  const Flags flags{"--workers", "3", "--steps", "25", "--batch", "192"};
  EXPECT_EQ(with_straggler(2, flags).commits[2], 25) << "all wait for it";
  Flags more = flags;
  more.insert(more.end(), {"--backup-workers", "1"});
  Shares with = with_straggler(2, more);
  EXPECT_LT(with.commits[2], 12) << "the others wait for it";
  EXPECT_GE(with.commits[0], 15);
  EXPECT_GE(with.commits[1], 15);
}

}  // namespace
}  // namespace trireme::system_test
