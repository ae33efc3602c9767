// What the consistency modes promise, shown by whole jobs of real processes.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  /// Seconds of training (not of starting) with 2 workers of which the second computes ten times as long.
  double seconds_with_straggler(const std::string& consistency, double* spread = nullptr) {
    const auto result = train({"--workers", "2", "--steps", "40", "--batch", "256", "--slow", "1:10", "--threads", "1",
                               "--consistency", consistency},
                              "slow-" + std::to_string(++runs_));
    if (spread != nullptr) *spread = result.value("clock_spread_max", -1.0);
    return result.value("seconds", 0.0);
  }

 private:
  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  int runs_ = 0;
};

TEST_F(Runs, BspGivesTheSameBitsWhoeverComputes) {
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
  double lead = 0;
  seconds_with_straggler("ssp:4", &lead);
  EXPECT_GE(lead, 1) << "the fast worker never went ahead";
  EXPECT_LE(lead, 4);
}

TEST_F(Runs, WithAStragglerSspIsFasterThanBspAndAspFasterStill) {
  // A worker that is always slow is waited for in the end: what ssp gains are the steps of its lead. Of 80 pieces of
  // work the slow worker does 40 with bsp, (80 - 48) / 2 with ssp:48, and about 8 with asp.
  double ssp_lead = 0;
  double asp_lead = 0;
  const double bsp = seconds_with_straggler("bsp");
  const double ssp = seconds_with_straggler("ssp:48", &ssp_lead);
  const double asp = seconds_with_straggler("asp", &asp_lead);
  EXPECT_LT(ssp, 0.8 * bsp);
  EXPECT_LT(asp, 0.6 * bsp);
  EXPECT_LE(ssp_lead, 48);
  EXPECT_GT(ssp_lead, 24) << "the fast worker was held more than it must be";
  EXPECT_GT(asp_lead, 48) << "the fast worker was held";
}

TEST_F(Runs, ABackupWorkerMakesUpForAStraggler) {
  const Flags flags{"--workers", "3", "--steps", "25", "--batch", "192", "--slow", "2:10", "--threads", "1"};
  const double without = train(flags, "without").value("seconds", 0.0);
  Flags more = flags;
  more.insert(more.end(), {"--backup-workers", "1"});
  const double with = train(more, "with").value("seconds", 0.0);
  EXPECT_LT(with, 0.5 * without);
}

}  // namespace
}  // namespace trireme::system_test
