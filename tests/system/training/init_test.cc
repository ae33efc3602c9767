// `--init` and `trireme ckpt import`, by whole jobs of real processes: training goes on from a model in a file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/lock_file.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class InitFromFile : public ::testing::Test {
 protected:
  Outcome train(Flags flags) {
    flags.insert(flags.begin(), {"train", "--data-dir", images_.string(), "--batch", "32", "--threads", "1"});
    return run_trireme(folder_, flags);
  }

  static std::string hash_in(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto result = outcome.json();
    return result.is_object() ? result.value("parameters_sha256", "") : "";
  }

  /// One step with so small a rate that no parameter changes.
  std::string hash_of_start(const Flags& flags) {
    Flags all{"--json", "--steps", "1", "--lr", "1e-30", "--lanes", "2"};
    all.insert(all.end(), flags.begin(), flags.end());
    return hash_in(train(all));
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(InitFromFile, EveryJobStartsFromTheExportedBits) {
  const std::string trained = hash_in(train({"--json", "--steps", "5", "--out", "first"}));
  ASSERT_EQ(run_trireme(folder_, {"ckpt", "export", "first", "m.safetensors"}).status, 0);
  ASSERT_EQ(run_trireme(folder_, {"ckpt", "export", "first", "m.pt"}).status, 0);
  EXPECT_NE(hash_of_start({"--seed", "2"}), trained);
  for (const char* strategy : {"ps", "allreduce"}) {
    for (const char* workers : {"1", "2"}) {
      EXPECT_EQ(hash_of_start({"--init", "m.safetensors", "--strategy", strategy, "-w", workers, "--seed", "2"}),
                trained)
          << strategy << " with " << workers;
    }
  }
  EXPECT_EQ(hash_of_start({"--init", "first", "-w", "2", "-s", "2", "--consistency", "asp", "--seed", "2"}), trained);

  // From a file of torch::save, through a checkpoint; the message is the command.
  const Outcome imported = run_trireme(folder_, {"ckpt", "import", "m.pt", "imported"});
  EXPECT_EQ(imported.status, 0) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("trireme train --model lenet --init imported"));
  EXPECT_EQ(hash_of_start({"--model", "lenet", "--init", "imported", "--seed", "2"}), trained);
  const Outcome resumed = run_trireme(folder_, {"resume", "imported"});
  EXPECT_EQ(resumed.status, 2);
  EXPECT_THAT(resumed.err, HasSubstr("trireme train --init imported"));
}

TEST_F(InitFromFile, AResumedRunGoesOnFromItsOwnCheckpoint) {
  const Flags long_run{"--json", "--schedule", "constant", "--checkpoint-every", "4", "--steps"};
  const auto with = [&](Flags more) {
    more.insert(more.begin(), long_run.begin(), long_run.end());
    return more;
  };
  ASSERT_EQ(train({"--json", "--steps", "5", "--out", "first"}).status, 0);
  const std::string whole = hash_in(train(with({"8", "--init", "first", "--out", "whole"})));
  ASSERT_EQ(train(with({"4", "--init", "first", "--out", "half"})).status, 0);
  std::filesystem::remove_all(folder_ / "first");  // not needed any more
  const Outcome other = run_trireme(folder_, {"resume", "half", "--init", "whole", "--json"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("--init whole"), HasSubstr("trained with first"), HasSubstr("leave the flag out")));
  EXPECT_EQ(hash_in(run_trireme(folder_, {"resume", "half", "--steps", "8", "--json"})), whole);
}

TEST_F(InitFromFile, AModelOfAnotherShapeIsOneClearLine) {
  ASSERT_EQ(train({"--json", "--steps", "1", "--model", "mlp", "--out", "mlp"}).status, 0);
  const Outcome outcome = train({"--json", "--steps", "1", "--init", "mlp", "--out", "lenet"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(last_line(outcome.err, "trireme: "),
              AllOf(HasSubstr("worker 0 failed"), HasSubstr("does not fit the model"),
                    HasSubstr("'conv1.weight' is missing"), HasSubstr("more")));
  const Outcome inside = train({"--json", "--init", "mlp", "--out", "mlp", "--overwrite"});
  EXPECT_EQ(inside.status, 2);
  EXPECT_THAT(inside.err, HasSubstr("--overwrite replaces"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "mlp/result.json"));
}

/// examples/fashion_mnist.cc knows nothing of it.
TEST_F(InitFromFile, ATrainerProgramTakesIt) {
  const auto run = [&](Flags flags) {
    flags.insert(flags.begin(), {"run", "--json", "--lanes", "2", "-w", "2"});
    flags.insert(flags.end(), {"--", TRIREME_BINARY_DIR "/fashion_mnist", images_.string()});
    return run_trireme(folder_, flags);
  };
  const std::string trained = hash_in(run({"--lr", "1e-2", "--steps", "3", "--out", "first"}));
  EXPECT_EQ(hash_in(run({"--lr", "1e-30", "--steps", "1", "--init", "first", "--out", "second"})), trained);
  const Outcome other = run_trireme(folder_, {"resume", "second", "--init", "second"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("--init second"), HasSubstr("trained with first")));
}

TEST_F(InitFromFile, ImportLeavesARunThatGoesOnAlone) {
  ASSERT_EQ(train({"--json", "--steps", "1", "--out", "first"}).status, 0);
  ASSERT_EQ(run_trireme(folder_, {"ckpt", "export", "first", "m.safetensors"}).status, 0);
  const auto held = LockFile::try_lock(folder_ / "first/lock");
  ASSERT_TRUE(held);
  const Outcome outcome = run_trireme(folder_, {"ckpt", "import", "m.safetensors", "first"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("first belongs to a run that is going on"), HasSubstr("trireme stop first")));
}

}  // namespace
}  // namespace trireme::system_test
