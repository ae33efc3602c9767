// A program with train_main (examples/own_model.cc), by whole jobs of real processes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Flags = std::vector<std::string>;

class TrainMain : public ::testing::Test {
 protected:
  Outcome own_model(Flags words) {
    words.insert(words.begin(), kProgram);
    return Program(folder_, words).wait();
  }

  /// Trains the program's own model on its own data.
  Outcome train(Flags flags) {
    flags.insert(flags.begin(), {"--model", "ours", "--data", "rings", "--threads", "1", "--batch", "50", "--json"});
    return own_model(flags);
  }

  static std::string hash_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto result = outcome.json();
    return result.is_object() ? result.value("parameters_sha256", "") : "";
  }

  static constexpr const char* kProgram = TRIREME_BINARY_DIR "/own_model";
  TempFolder folder_;
};

TEST_F(TrainMain, TrainsItsOwnModelUnderEveryStrategyWithTheSameBits) {
  const Flags rest{"--task", "cautious", "--steps", "12", "--lanes", "2"};
  const auto with = [&](Flags flags) {
    flags.insert(flags.end(), rest.begin(), rest.end());
    return hash_of(train(flags));
  };
  const std::string alone = with({"-w", "1", "--strategy", "allreduce"});
  EXPECT_FALSE(alone.empty());
  EXPECT_EQ(with({"-w", "2", "--strategy", "allreduce"}), alone);
  EXPECT_EQ(with({"-w", "2", "--strategy", "ps"}), alone);
}

TEST_F(TrainMain, IsResumedAndUsedByTheCommandThroughItsProgram) {
  const std::string whole = hash_of(train({"--steps", "20", "--schedule", "constant", "--out", "whole"}));
  ASSERT_EQ(train({"--steps", "10", "--schedule", "constant", "--out", "half"}).status, 0);
  EXPECT_EQ(hash_of(run_trireme(folder_, {"resume", "half", "--steps", "20", "--json"})), whole);

  const Outcome scores = run_trireme(folder_, {"eval", "half", "-w", "2", "--json"});
  ASSERT_EQ(scores.status, 0) << scores.err;
  EXPECT_EQ(scores.json().value("samples", 0), 300);

  const Outcome rows = run_trireme(folder_, {"predict", "half", "--part", "train", "-w", "2"});
  ASSERT_EQ(rows.status, 0) << rows.err;
  EXPECT_EQ(std::ranges::count(rows.out, '\n'), 1 + 3000);
  EXPECT_THAT(rows.out, AllOf(HasSubstr("ring\n"), HasSubstr("outer\n"))) << "with the names of the classes";

  std::filesystem::remove(folder_ / "half/trainer.json");
  write_file_atomically(folder_ / "half/trainer.json", as_bytes(R"({"program": "/nowhere/own_model"})"));
  const Outcome gone = run_trireme(folder_, {"resume", "half"});
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("/nowhere/own_model"), HasSubstr("./own_model resume half")));
}

TEST_F(TrainMain, NamesAreCheckedBeforeAnythingStarts) {
  const Outcome model = own_model({"--model", "our", "--data", "rings", "--out", "run"});
  EXPECT_EQ(model.status, 2);
  EXPECT_THAT(model.err, AllOf(HasSubstr("there is no model 'our'"), HasSubstr("did you mean 'ours'?")));
  const Outcome task = train({"--task", "cautius", "--out", "run"});
  EXPECT_EQ(task.status, 2);
  EXPECT_THAT(task.err, HasSubstr("did you mean 'cautious'?"));
  const Outcome data = own_model({"--model", "ours", "--data", "ring", "--out", "run"});
  EXPECT_EQ(data.status, 2);
  EXPECT_THAT(data.err, HasSubstr("did you mean 'rings'?"));
  const Outcome flag = own_model({"--epoch", "2"});
  EXPECT_EQ(flag.status, 2);
  EXPECT_THAT(flag.err, HasSubstr("did you mean '--epochs'?"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  // Another program does not know these names.
  EXPECT_THAT(run_trireme(folder_, {"train", "--model", "ours"}).err, HasSubstr("there is no model 'ours'"));
}

TEST_F(TrainMain, UnderTriremeRun_IsAWorkerOfThatJob) {
  const Outcome job = run_trireme(folder_, {"run", "-w", "2", "-s", "0", "--strategy", "allreduce", "--json", "--",
                                            kProgram, "--model", "ours", "--data", "rings", "--steps", "5"});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(job.json().value("steps", 0), 5);
  const Outcome refused =
      run_trireme(folder_, {"run", "-w", "1", "-s", "0", "--out", "refused", "--", kProgram, "--workers", "3"});
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.out + refused.err + read_file(folder_ / "refused/logs/worker-0.log"),
              HasSubstr("--workers: this program is a worker of a job"));
}

TEST_F(TrainMain, HelpTellsEveryFlag) {
  const Outcome help = own_model({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--consistency"), HasSubstr("--init"), Not(HasSubstr("--worker "))));
}

}  // namespace
}  // namespace trireme::system_test
