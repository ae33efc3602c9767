// What is done to gradients and parameters besides the rule, by whole jobs: the same bits for any number of workers,
// with servers and without, and whoever dies.

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/exhaustive.h"
#include "tests/system/training/long_job.h"

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

/// 2^126: the gradients of the first steps overflow, and after every four good ones those of another.
const Flags kOverflows{"--loss-scale", "dynamic,init=85070591730234615865843651857942052864,every=4", "--schedule",
                       "constant"};

// Loss scales. Here, on CPUs, gradients overflow because the scale begins where floats end.

class LossScales : public ::testing::Test {
 protected:
  nlohmann::json train(const Flags& flags, const std::string& steps = "24") {
    const Outcome outcome = run_trireme(folder_, Flags{"train", "--data-dir", images_.string(), "--json", "--lanes",
                                                       "4", "--steps", steps, "--batch", "32", "--threads", "1"} +
                                                     flags);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const nlohmann::json result = outcome.json();
    return result.is_object() ? result : nlohmann::json::object();
  }

  std::string hash(const Flags& flags) { return train(flags).value("state_sha256", ""); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(LossScales, AreTakenOutAgainWithoutATrace) {
  const std::string plain = hash({"-w", "1", "--clip-norm", "0.5"});
  EXPECT_EQ(hash({"-w", "1", "--clip-norm", "0.5", "--loss-scale", "1024"}), plain);
  const nlohmann::json dynamic = train({"-w", "2", "--clip-norm", "0.5", "--loss-scale", "dynamic,every=5"});
  EXPECT_EQ(dynamic.value("state_sha256", ""), plain);
  EXPECT_EQ(dynamic.value("steps_left_out", -1), 0);
  EXPECT_EQ(dynamic.value("loss_scale", 0.0), 65536 * 16) << "four times five good steps";
}

TEST_F(LossScales, TheSameStepsAreLeftOutForAnyWorkersAndServers) {
  const nlohmann::json alone = train(kOverflows + Flags{"--strategy", "allreduce", "-w", "1"});
  EXPECT_GT(alone.value("steps_left_out", 0), 3);
  EXPECT_LT(alone.value("steps_left_out", 24), 12);
  EXPECT_EQ(alone.value("steps", 0), 24);
  for (const Flags& flags :
       {Flags{"--strategy", "allreduce", "-w", "4"}, Flags{"-w", "2", "-s", "2"},
        Flags{"-w", "3", "-s", "1", "--transport", "tcp"}, Flags{"--strategy", "central", "-w", "2"}}) {
    const nlohmann::json other = train(kOverflows + flags);
    EXPECT_EQ(other.value("state_sha256", ""), alone.value("state_sha256", "-")) << flags.back();
    EXPECT_EQ(other.value("steps_left_out", 0), alone.value("steps_left_out", -1)) << flags.back();
    EXPECT_EQ(other.value("loss_scale", 0.0), alone.value("loss_scale", -1.0)) << flags.back();
  }
  const Flags more{"--clip-norm", "0.5", "--ema", "0.9", "--precision", "bf16"};
  EXPECT_EQ(hash(kOverflows + more + Flags{"-w", "2", "-s", "2"}),
            hash(kOverflows + more + Flags{"--strategy", "allreduce", "-w", "2"}));
}

TEST_F(LossScales, WorkWhereEveryWorkerUpdatesForItself) {
  for (const Flags& strategy : {Flags{"--strategy", "local-sgd:4"}, Flags{"--consistency", "ssp:2"},
                                Flags{"--consistency", "asp"}, Flags{"--consistency", "asp", "--clip-norm", "1"}}) {
    const nlohmann::json result = train(kOverflows + Flags{"-w", "2"} + strategy);
    EXPECT_EQ(result.value("steps", 0), 24) << strategy.back();
    EXPECT_GT(result.value("steps_left_out", 0), 3) << strategy.back();
    EXPECT_LT(result.value("test_loss", 100.0), 2.4) << strategy.back();
  }
}

TEST_F(LossScales, AreStateOfTheRun) {
  const std::string whole = hash(kOverflows + Flags{"-w", "2"});
  train(kOverflows + Flags{"-w", "2", "-s", "2", "--out", "a"}, "9");
  train(kOverflows + Flags{"-w", "1", "--strategy", "allreduce", "--out", "b"}, "9");
  const Flags other{"resume", "a", "--steps", "24", "-w", "4", "--strategy", "allreduce", "--json"};
  const Flags back{"resume", "b", "--steps", "24", "-w", "2", "-s", "1", "--strategy", "ps", "--json"};
  for (const Flags& flags : {other, back}) {
    const Outcome resumed = run_trireme(folder_, flags);
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(resumed.json().value("state_sha256", ""), whole) << flags[1];
  }
}

TEST_F(LossScales, CanBeginToAdaptInARunThatGoesOn) {
  train({"-w", "1", "--out", "plain", "--schedule", "constant"}, "3");
  const Outcome resumed =
      run_trireme(folder_, Flags{"resume", "plain", "--steps", "6", "--json", "--loss-scale", "dynamic"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().value("loss_scale", 0.0), 65536);
}

// A step can be interrupted when some servers have left it out and others have not, or have advanced the scale; and
// workers that come later have to know it.
TEST_F(LossScales, KilledServersAndWorkersChangeNothing) {
  const Flags common{"chaos",     "--data-dir", images_.string(),
                     "--lanes",   "4",          "--steps",
                     "100",       "--batch",    "16",
                     "--threads", "1",          "-w",
                     "3",         "--step-ms",  "10",
                     "--every",   "15",         "--count",
                     "4",         "--faults",   "kill"};
  for (const Flags& flags : {Flags{"-s", "2", "--roles", "worker,server", "--out", "servers"},
                             Flags{"--strategy", "allreduce", "--roles", "worker", "--out", "equals"}}) {
    const Outcome outcome = run_trireme(folder_, common + kOverflows + flags, {}, 120s);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("the same as the undisturbed run's"), HasSubstr("PASSED")));
  }
}

TEST_F(LossScales, WhatCannotBeIsRefusedBeforeTheStart) {
  const auto refuse = [&](const Flags& flags, const ::testing::Matcher<const std::string&>& message) {
    const Outcome outcome = run_trireme(folder_, Flags{"train", "--data-dir", images_.string()} + flags);
    EXPECT_EQ(outcome.status, 2) << outcome.err;
    EXPECT_THAT(outcome.err, message);
  };
  refuse({"--precision", "fp16"}, AllOf(HasSubstr("--precision bf16"), HasSubstr("--device cuda")));
  refuse({"--loss-scale", "huge"}, AllOf(HasSubstr("--loss-scale"), HasSubstr("dynamic")));
  refuse({"--loss-scale", "dynamic", "--backup-workers", "1"}, HasSubstr("a fixed --loss-scale"));
  refuse({"--loss-scale", "dynamic", "--codec", "topk:0.1"}, HasSubstr("no codec"));
}

}  // namespace
}  // namespace trireme::system_test
