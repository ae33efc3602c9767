// What is done to gradients and parameters besides the rule, by whole jobs: the same bits for any number of workers,
// with servers and without, and whoever dies.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/exhaustive.h"
#include "tests/system/long_job.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

Flags operator+(Flags a, const Flags& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Flags kEverything{"--clip-norm",
                        "0.5",
                        "--ema",
                        "0.9",
                        "--prune",
                        "0.5,from=2,every=4",
                        "--groups",
                        "1d:decay=0;*:lr=0.5",
                        "--l2",
                        "0.01",
                        "--label-smoothing",
                        "0.1",
                        "--precision",
                        "bf16"};

class Optimization : public ::testing::Test {
 protected:
  /// The result of 12 steps of LeNet on 4 lanes.
  nlohmann::json train(const Flags& flags, const std::string& steps = "12") {
    const Outcome outcome = run_trireme(folder_, Flags{"train", "--data-dir", images_.string(), "--json", "--lanes",
                                                       "4", "--steps", steps, "--batch", "32", "--threads", "1"} +
                                                     flags);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const nlohmann::json result = outcome.json();
    return result.is_object() ? result : nlohmann::json::object();
  }

  std::string hash(const Flags& flags) { return train(flags).value("parameters_sha256", ""); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Optimization, EverythingAtOnceGivesTheSameBitsForAnyWorkersAndServers) {
  const std::string alone = hash(kEverything + Flags{"--strategy", "allreduce", "-w", "1"});
  EXPECT_EQ(alone.size(), 64u);
  EXPECT_EQ(hash(kEverything + Flags{"--strategy", "allreduce", "-w", "4"}), alone);
  EXPECT_EQ(hash(kEverything + Flags{"-w", "2", "-s", "2"}), alone);
  EXPECT_EQ(hash(kEverything + Flags{"-w", "3", "-s", "1", "--transport", "tcp"}), alone);
}

TEST_F(Optimization, EachOfThemChangesTheResult) {
  std::set<std::string> hashes{hash({"-w", "1"})};
  const std::vector<Flags> each{
      {"--clip-norm", "0.5"},       {"--ema", "0.9"},        {"--prune", "0.5,every=4"},    {"--groups", "1d:lr=0.5"},
      {"--label-smoothing", "0.1"}, {"--precision", "bf16"}, {"--groups", "conv1.*:frozen"}};
  for (const Flags& flags : each) hashes.insert(hash(flags + Flags{"-w", "1"}));
  EXPECT_EQ(hashes.size(), 1 + each.size());
}

TEST_F(Optimization, TheyWorkWithEveryStrategy) {
  for (const Flags& strategy : {Flags{"--strategy", "local-sgd:4"}, Flags{"--consistency", "ssp:2"},
                                Flags{"--consistency", "asp"}, Flags{"--codec", "topk:0.1"}}) {
    const nlohmann::json result = train(kEverything + Flags{"-w", "2"} + strategy);
    EXPECT_EQ(result.value("steps", 0), 12) << strategy.back();
    EXPECT_NEAR(result.value("sparsity", 0.0), 0.5, 0.02) << strategy.back();
  }
}

TEST_F(Optimization, AResumedRunEndsWithTheBitsOfOneThatWasNeverStopped) {
  const std::string whole = hash(kEverything + Flags{"-w", "2", "--schedule", "constant"});
  const Flags half =
      kEverything + Flags{"-w", "2", "--schedule", "constant", "--prune", "0.5,from=2,to=9,every=4", "--out", "run"};
  Flags first = half;
  std::erase(first, "0.5,from=2,every=4");
  first.erase(std::ranges::find(first, "--prune"));
  train(first, "5");
  const Outcome resumed =
      run_trireme(folder_, {"resume", "run", "--steps", "12", "-w", "4", "--strategy", "allreduce", "--json"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().value("parameters_sha256", ""), whole);
}

// A server that dies between what its chunks weighed and what they applied leaves some of them a step ahead.
TEST_F(Optimization, KilledServersAndWorkersChangeNothing) {
  const Outcome outcome = run_trireme(folder_,
                                      Flags{"chaos",
                                            "--data-dir",
                                            images_.string(),
                                            "--lanes",
                                            "4",
                                            "--steps",
                                            "120",
                                            "--batch",
                                            "16",
                                            "--threads",
                                            "1",
                                            "-w",
                                            "3",
                                            "-s",
                                            "2",
                                            "--step-ms",
                                            "10",
                                            "--every",
                                            "15",
                                            "--count",
                                            "5",
                                            "--faults",
                                            "kill",
                                            "--roles",
                                            "worker,server",
                                            "--clip-norm",
                                            "0.5",
                                            "--ema",
                                            "0.9",
                                            "--prune",
                                            "0.5,every=10",
                                            "--out",
                                            "chaos"},
                                      {}, 120s);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("the same as the undisturbed run's"), HasSubstr("PASSED")));
}

TEST_F(Optimization, WhatCannotBeIsRefusedBeforeTheStart) {
  const auto refuse = [&](const Flags& flags, const ::testing::Matcher<const std::string&>& message) {
    const Outcome outcome = run_trireme(folder_, Flags{"train", "--data-dir", images_.string()} + flags);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, message);
  };
  refuse({"--clip-norm", "1", "--backup-workers", "1"}, HasSubstr("--clip-value"));
  refuse({"--ema", "1"}, HasSubstr("--ema"));
  refuse({"--prune", "2"}, AllOf(HasSubstr("--prune"), HasSubstr("below 1")));
  refuse({"--groups", "bias"}, AllOf(HasSubstr("--groups"), HasSubstr("colon")));
  refuse({"--precision", "fp8"}, HasSubstr("bf16"));
  refuse({"--prune", "0.5", "--strategy", "local-sgd:4,elastic=0.5"}, HasSubstr("elastic"));
}

TEST_F(Optimization, AGroupThatMatchesNothingIsNamed) {
  const Outcome outcome = run_trireme(
      folder_, {"train", "--data-dir", images_.string(), "--groups", "nothing.*:lr=2", "--steps", "3", "-w", "1"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("'nothing.*:lr=2'"), HasSubstr("conv1.weight")));
}

}  // namespace
}  // namespace trireme::system_test
