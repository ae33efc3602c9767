// Models from Python: `--model net.pt`, by whole jobs of real processes. The files are those of make_script.py.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/exhaustive.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

std::string fixture(const std::string& name) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/system/fixtures/" + name;
}

class Script : public ::testing::Test {
 protected:
  Outcome train(const std::string& model, Flags flags) {
    flags.insert(flags.begin(), {"train", "--data-dir", images_.string(), "--batch", "32", "--threads", "1", "--model",
                                 model, "--json", "--lanes", "2"});
    return run_trireme(folder_, flags);
  }

  static std::string hash_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const auto result = outcome.json();
    return result.is_object() ? result.value("state_sha256", "") : "";
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
};

TEST_F(Script, TrainsUnderEveryStrategyWithTheSameBits) {
  const std::string alone = hash_of(train(fixture("net.pt"), {"--steps", "10", "-w", "1", "--strategy", "allreduce"}));
  EXPECT_EQ(hash_of(train(fixture("net.pt"), {"--steps", "10", "-w", "2", "--strategy", "allreduce"})), alone);
  EXPECT_EQ(hash_of(train(fixture("net.pt"), {"--steps", "10", "-w", "2", "--strategy", "ps"})), alone);
}

TEST_F(Script, IsExportedAndTrainsOnFromWhatWasExported) {
  const std::string trained = hash_of(train(fixture("traced.pt"), {"--steps", "10", "--out", "run"}));
  ASSERT_TRUE(std::filesystem::exists(folder_ / "run/model.pt"));
  const Outcome still =
      train((folder_ / "run/model.pt").string(), {"--steps", "1", "--lr", "1e-30", "--buffers", "own"});
  EXPECT_EQ(still.json().value("parameters_sha256", ""),
            nlohmann::json::parse(read_file(folder_ / "run/result.json")).value("parameters_sha256", "-"));
  const Outcome scores = run_trireme(folder_, {"eval", "run", "--json"});
  ASSERT_EQ(scores.status, 0) << scores.err;
  EXPECT_DOUBLE_EQ(scores.json().value("loss", 0.0),
                   nlohmann::json::parse(read_file(folder_ / "run/result.json")).value("test_loss", -1.0));
}

TEST_F(Script, ARunGoesOnWhenTheFileIsGone) {
  std::filesystem::copy_file(fixture("net.pt"), folder_ / "mine.pt");
  const Flags flags{"--schedule", "constant", "--checkpoint-every", "5", "--steps"};
  const auto with = [&](Flags more) {
    more.insert(more.begin(), flags.begin(), flags.end());
    return more;
  };
  const std::string whole = hash_of(train("mine.pt", with({"10", "--out", "whole"})));
  ASSERT_EQ(train("mine.pt", with({"5", "--out", "half"})).status, 0);
  std::filesystem::remove(folder_ / "mine.pt");
  EXPECT_EQ(hash_of(run_trireme(folder_, {"resume", "half", "--steps", "10", "--json"})), whole);
}

TEST_F(Script, WhatDoesNotFitIsRefusedBeforeAnythingStarts) {
  const auto refused = [&](const std::string& model) {
    const Outcome outcome = train(model, {"--steps", "1", "--out", "run"});
    EXPECT_EQ(outcome.status, 2) << outcome.out << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
    return outcome.err;
  };
  EXPECT_THAT(refused(fixture("no_forward.pt")), HasSubstr("has no forward"));
  EXPECT_THAT(refused(fixture("two_inputs.pt")), HasSubstr("its forward takes 2 input(s), and the samples have 1"));
  EXPECT_THAT(refused(fixture("wide.pt")),
              AllOf(HasSubstr("does not take field 'image' (image 1x28x28)"), HasSubstr("shapes")));
  EXPECT_THAT(refused("missing.pt"), HasSubstr("there is no such file"));
  write_file_atomically(folder_ / "noise.pt", as_bytes("this is not TorchScript"));
  EXPECT_THAT(refused("noise.pt"), HasSubstr("is no TorchScript"));
  const std::string whole = read_file(fixture("net.pt"));
  write_file_atomically(folder_ / "half.pt", as_bytes(std::string_view(whole).substr(0, whole.size() / 2)));
  EXPECT_THAT(refused("half.pt"), HasSubstr("is no TorchScript"));
}

/// Debian's python3-torch writes a network, two workers train it, and Python loads what they exported.
TEST_F(Script, PythonRoundTrip) {
  if (!exhaustive()) GTEST_SKIP() << "PyTorch in Python: with make test-all";
  const std::string maker = std::string(TRIREME_SOURCE_DIR) + "/tests/system/training/make_script.py";
  const Outcome made = Program(folder_, {"/usr/bin/python3", maker, folder_.path().string()}).wait();
  if (made.err.find("No module named 'torch'") != std::string::npos) GTEST_SKIP() << "there is no python3-torch here";
  ASSERT_EQ(made.status, 0) << made.err;
  for (const char* model : {"net.pt", "traced.pt"}) {
    hash_of(train(model, {"--steps", "10", "-w", "2", "--out", "run", "--overwrite"}));
    const Outcome compared =
        Program(folder_, {"/usr/bin/python3", maker, "--compare", "run/model.pt", "run/model.safetensors"}).wait();
    EXPECT_EQ(compared.out, "tensors 11 of 11 equal, training False, outputs equal True\n") << model << compared.err;
  }
}

}  // namespace
}  // namespace trireme::system_test
