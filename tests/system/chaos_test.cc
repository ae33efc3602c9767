// `trireme chaos`: trainings whose workers are killed end as if nothing had happened, and the command can tell.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;

class Chaos : public ::testing::Test {
 protected:
  Outcome chaos(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"chaos", "--data-dir", images_.string(), "--batch", "32", "--checkpoint-every", "0"});
    return run_trireme(folder_, flags);
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Chaos, KilledWorkersChangeNothing) {
  const Outcome outcome = chaos({"--strategy", "allreduce", "-w", "4", "--steps", "200", "--step-ms", "25", "--every",
                                 "60", "--count", "2", "--json"});
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
  const Outcome outcome = chaos({"--strategy", "allreduce", "-w", "2", "--steps", "60", "--step-ms", "20", "--every",
                                 "60", "--count", "1", "--fault-seed", "3", "--json"});  // at step 59
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

}  // namespace
}  // namespace trireme::system_test
