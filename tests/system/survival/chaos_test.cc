// `trireme chaos`: trainings whose workers are killed end as if nothing had happened, and the command can tell. So do
// programs of one's own, as users have them (examples/).

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "observe/step_trace.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

class Chaos : public ::testing::Test {
 protected:
  Outcome chaos(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"chaos", "--data-dir", images_.string(), "--batch", "32", "--checkpoint-every", "0"});
    return run_trireme(folder_, flags, {}, 120s);
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Chaos, KilledWorkersChangeNothing) {
  // The second fault waits until the first victim is back: its process has seconds for that before the run ends.
  const Outcome outcome = chaos({"--strategy", "allreduce", "-w", "4", "--steps", "100", "--step-ms", "80", "--every",
                                 "10", "--count", "2", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto report = outcome.json();
  ASSERT_TRUE(report.is_object()) << outcome.out;
  EXPECT_EQ(report.at("injected"), 2);
  EXPECT_EQ(report.at("parameters_sha256"), report.at("reference_sha256"));
  EXPECT_EQ(report.at("samples_missing"), 0);
  EXPECT_EQ(report.at("samples_repeated"), 0);
  EXPECT_GT(report.at("goodput"), 0);
  for (const auto& recovery : report.at("recoveries")) {
    EXPECT_LE(recovery.at("steps_redone"), 1) << recovery;
    EXPECT_TRUE(recovery.at("seconds").is_number()) << "it did not recover: " << recovery;
  }
}

TEST_F(Chaos, WorkerThatReturnsOnlyAfterTheEndIsNoFailure) {
  const Outcome outcome = chaos({"--strategy", "allreduce", "-w", "2", "--steps", "12", "--step-ms", "200", "--every",
                                 "12", "--count", "1", "--fault-seed", "3", "--json"});  // at step 11
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.json().at("injected"), 1);
}

TEST_F(Chaos, MistakesAreNamed) {
  const Outcome role = chaos({"--strategy", "allreduce", "--roles", "server"});
  EXPECT_EQ(role.status, 2);
  EXPECT_THAT(role.err, HasSubstr("this job has no servers"));
  const Outcome kind = chaos({"--faults", "kil"});
  EXPECT_EQ(kind.status, 2);
  EXPECT_THAT(kind.err, HasSubstr("did you mean 'kill'?"));
}

class ProgramChaos : public ::testing::Test {
 protected:
  Outcome chaos(std::vector<std::string> flags, const std::vector<std::string>& program) {
    flags.insert(flags.begin(), {"chaos", "--out", (folder_ / "chaos").string(), "--json"});
    flags.emplace_back("--");
    flags.insert(flags.end(), program.begin(), program.end());
    return run_trireme(folder_, flags, {{"OPENBLAS_NUM_THREADS", "1"}}, 120s);  // the bits depend on it
  }

  static std::string example(const std::string& name) { return TRIREME_BINARY_DIR "/" + name; }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(ProgramChaos, ElasticLoopEndsWithTheSameState) {
  const Outcome outcome =
      chaos({"-w", "2", "-s", "0", "--every", "10", "--count", "2"}, {example("own_loop"), images_.string(), "300"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto report = outcome.json();
  ASSERT_TRUE(report.is_object()) << outcome.out;
  EXPECT_EQ(report.at("injected"), 2);
  EXPECT_EQ(report.at("steps"), 300);
  EXPECT_EQ(report.at("compared"), "state");
  EXPECT_EQ(report.at("parameters_sha256").get<std::string>().size(), 64u);
  EXPECT_EQ(report.at("parameters_sha256"), report.at("reference_sha256"));
  EXPECT_EQ(report.at("counted"), "lanes");
  EXPECT_EQ(report.at("samples_missing"), 0);
  EXPECT_EQ(report.at("samples_repeated"), 0);

  std::set<View> entered;
  for (const observe::StepEvent& event : observe::TraceFollower(folder_ / "chaos" / "disturbed").next()) {
    if (event.kind == observe::StepEvent::Kind::kEnter) entered.insert(event.view);
  }
  EXPECT_GE(entered.size(), 3u) << "a view after each fault says with which step it goes on";
}

TEST_F(ProgramChaos, TrainerProgramEndsWithTheSameParameters) {
  const Outcome outcome = chaos({"-w", "2", "--strategy", "allreduce", "--batch", "32", "--steps", "200", "--every",
                                 "60", "--count", "1", "--checkpoint-every", "0"},
                                {example("fashion_mnist"), images_.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  const auto report = outcome.json();
  ASSERT_TRUE(report.is_object()) << outcome.out;
  EXPECT_EQ(report.at("injected"), 1);
  EXPECT_EQ(report.at("steps"), 200) << "--steps is passed on";
  EXPECT_EQ(report.at("compared"), "parameters");
  EXPECT_EQ(report.at("parameters_sha256"), report.at("reference_sha256"));
  EXPECT_TRUE(report.at("scores").at("accuracy").is_number());
}

TEST_F(ProgramChaos, ProgramThatIsNotDeterministicIsToldFromOneThatLosesWork) {
  const std::string script = folder_ / "moody";
  write_file_atomically(script,
                        as_bytes("#!/bin/sh\n"
                                 "case $TRIREME_RUN_DIR in *reference) n=150;; *again) n=151;; *) n=152;; esac\n"
                                 "exec \"$1\" \"$2\" $n\n"));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const Outcome outcome =
      chaos({"-w", "2", "-s", "0", "--every", "50", "--count", "1"}, {script, example("own_loop"), images_.string()});
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  const auto report = outcome.json();
  ASSERT_TRUE(report.is_object()) << outcome.out;
  EXPECT_EQ(report.at("reproducible"), false);
  EXPECT_THAT(report.at("problems").dump(), HasSubstr("the program is not deterministic"));
}

TEST_F(ProgramChaos, ProgramsThatCannotBeDisturbedAreNamed) {
  const Outcome stranger = chaos({"-w", "2"}, {"true"});
  EXPECT_EQ(stranger.status, 1);
  EXPECT_THAT(stranger.err, HasSubstr("never joined the job"));
  const Outcome plain = chaos({"-w", "2", "-s", "0", "--overwrite"}, {example("all_reduce")});
  EXPECT_EQ(plain.status, 1);
  EXPECT_THAT(plain.err, HasSubstr("left no trace of its steps"));
}

}  // namespace
}  // namespace trireme::system_test
