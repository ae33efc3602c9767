// Models that are divided among the workers of whole jobs: the same bits on every layout, whoever dies, and after a
// resume on another one.

#include <csignal>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/exhaustive.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Flags = std::vector<std::string>;

/// All of them, one after the other.
Flags all_of(const std::vector<Flags>& parts) {
  Flags all;
  for (const Flags& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class Meshes : public ::testing::Test {
 protected:
  Meshes() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += std::to_string(i * i) + " ";
    std::ofstream(folder_ / "numbers.txt") << text;
  }

  Flags gpt() const {
    return {"--data",      (folder_ / "numbers.txt").string(),
            "--length",    "16",
            "--model",     "gpt-tiny:layers=4,dropout=0.1",
            "--lanes",     "4",
            "--batch",     "8",
            "--threads",   "1",
            "--clip-norm", "1",
            "--ema",       "0.9"};
  }

  /// Trains 12 steps, and gives the hash.
  std::string hash(const Flags& flags) {
    const Outcome outcome = run_trireme(folder_, all_of({{"train", "--json", "--steps", "12"}, gpt(), flags}));
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    const nlohmann::json result = outcome.json();
    return result.is_object() ? result.value("parameters_sha256", "") : "";
  }

  /// A job on one layout, which is killed after a checkpoint, goes on on another one and ends with these bits.
  void expect_resumed(const std::string& run, const Flags& before, const Flags& after, int step,
                      const std::string& undisturbed) {
    SCOPED_TRACE(::testing::PrintToString(before) + " and then " + ::testing::PrintToString(after));
    {
      Program job(folder_, trireme(all_of({{"train", "--json", "--steps", "12", "--out", run, "--checkpoint-every", "2",
                                            "--step-ms", "200"},
                                           gpt(),
                                           before})));
      const std::string manifest = run + "/checkpoints/step-00000000" + std::to_string(step) + "/manifest.json";
      EXPECT_TRUE(eventually([&] { return std::filesystem::exists(manifest); }));
      job.send(SIGKILL);
    }
    const Outcome resumed = run_trireme(folder_, all_of({{"resume", run, "--json", "--step-ms", "0"}, after}));
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(resumed.json().value("parameters_sha256", ""), undisturbed) << resumed.err;
  }

  TempFolder folder_;
};

TEST_F(Meshes, EveryLayoutGivesTheSameBits) {
  const std::string alone = hash({"--strategy", "allreduce", "-w", "1"});
  ASSERT_EQ(alone.size(), 64u);
  std::vector<Flags> layouts{{"--mesh", "pipe=2"},
                             {"--mesh", "data=2,pipe=2", "--strategy", "zero:2", "--pipeline", "zb-v"},
                             {"-w", "3", "--strategy", "zero:3"}};
  if (exhaustive()) {
    for (const char* mesh : {"pipe=2", "pipe=3", "data=2,pipe=2", "pipe=4", "data=2,pipe=3", "data=4,pipe=2"}) {
      for (const char* pipeline : {"gpipe", "1f1b", "zb-h1"}) {
        for (const char* strategy : {"allreduce", "zero:1", "zero:2"}) {
          layouts.push_back({"--mesh", mesh, "--pipeline", pipeline, "--strategy", strategy});
        }
      }
    }
    for (const char* workers : {"2", "3", "4"}) {
      for (const char* strategy : {"zero:1", "zero:2", "zero:3", "zero:2,shards=2"}) {
        layouts.push_back({"-w", workers, "--strategy", strategy});
      }
    }
  }
  for (const Flags& layout : layouts) EXPECT_EQ(hash(layout), alone) << ::testing::PrintToString(layout);
}

TEST_F(Meshes, AScheduleOfOnesOwn) {
  const std::string file = (folder_ / "mine.csv").string();
  const Outcome drawn = run_trireme(
      folder_, {"plan", "--schedule", "zb-h1", "--stages", "2", "--micro-batches", "4", "--messages", "--csv", file});
  ASSERT_EQ(drawn.status, 0) << drawn.err;
  const Flags own{"--strategy", "allreduce", "--mesh", "pipe=2", "--pipeline", file};
  EXPECT_EQ(hash(own), hash({"--strategy", "allreduce", "-w", "1"}));

  const auto refused = [&](const Flags& mesh, const std::string& why) {
    const Outcome outcome =
        run_trireme(folder_, all_of({{"train", "--strategy", "allreduce", "--pipeline", file}, gpt(), mesh}));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_THAT(outcome.err, HasSubstr(why));
  };
  refused({"--mesh", "data=2,pipe=2"}, "that schedule is for pipe=2 and 4 micro-batches");
  refused({"--mesh", "pipe=3"}, "this is pipe=3 with 4 lanes");
  refused({"-w", "2"}, "this is pipe=1 with 4 lanes");
  std::ofstream(file) << "0F0,0B0\n1F0,1I0,1W0\n";
  refused({"--mesh", "pipe=2"}, "mine.csv: some backwards are whole (B) and others split");
  std::ofstream(file) << "0F0,0B0\n";
  refused({"--mesh", "pipe=2"}, "two ranks or more");
  std::filesystem::remove(file);
  refused({"--mesh", "pipe=2"}, "mine.csv");
}

TEST_F(Meshes, AScheduleOfOnesOwnBelongsToTheRun) {
  const std::string file = (folder_ / "mine.csv").string();
  std::ofstream(file) << "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3\n1F0,1F1,1B0,1B1,1F2,1F3,1B2,1B3\n";
  const std::string run = (folder_ / "run").string();
  hash({"--strategy", "allreduce", "--mesh", "pipe=2", "--pipeline", file, "--out", run});
  std::filesystem::remove(file);
  const auto resume = [&](const Flags& flags) { return run_trireme(folder_, all_of({{"resume", run}, flags})); };
  EXPECT_EQ(resume({"--steps", "14"}).status, 0);
  const Flags other{"--steps", "16", "--mesh", "data=2,pipe=2"};
  EXPECT_THAT(resume(other).err, HasSubstr("or give --pipeline 1f1b"));
  EXPECT_EQ(resume(all_of({other, {"--pipeline", "1f1b"}})).status, 0);
}

/// It is for three workers: two go on with another, and the same bits.
TEST_F(Meshes, AScheduleOfOnesOwnIsReplacedWhenAWorkerIsLost) {
  const std::string file = (folder_ / "mine.csv").string();
  ASSERT_EQ(run_trireme(folder_, {"plan", "--schedule", "1f1b", "--stages", "3", "--micro-batches", "4", "--csv", file})
                .status,
            0);
  const Outcome outcome = run_trireme(
      folder_,
      all_of({{"chaos", "--steps", "30", "--step-ms", "60", "--checkpoint-every", "10", "--count", "1", "--every", "12",
               "--roles", "worker", "--faults", "kill", "--restarts", "0", "--out", (folder_ / "run").string()},
              gpt(),
              {"--strategy", "allreduce", "--mesh", "pipe=3", "-w", "2:3", "--pipeline", file}}),
      {}, 120s);
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out + outcome.err, HasSubstr("the same as the undisturbed run's"));
  std::size_t replaced = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
    if (entry.path().extension() == ".log") replaced += has_event(read_file(entry.path()), "schedule_replaced") ? 1 : 0;
  }
  EXPECT_GE(replaced, 2u) << "in the logs of those that live";
}

/// Layouts of all kinds that train the same model to the same bits.
const std::vector<Flags>& some_layouts() {
  static const std::vector<Flags> all{
      {"--mesh", "data=2,pipe=2", "--strategy", "allreduce"},
      {"--mesh", "data=1,pipe=3", "--strategy", "allreduce", "--pipeline", "zb-h1"},
      {"--mesh", "data=1,pipe=2", "--strategy", "allreduce", "--pipeline", "zb-v"},
      {"--mesh", "data=2,pipe=2", "--strategy", "zero:2", "--pipeline", "gpipe"},
      {"--mesh", "data=1,pipe=4", "--strategy", "allreduce"},
      {"--mesh", "data=3,pipe=1", "--strategy", "zero:3"},
      {"--mesh", "data=4,pipe=1", "--strategy", "zero:1"},
      {"--mesh", "data=2,pipe=1", "--strategy", "zero:2"},
      {"--mesh", "data=2,pipe=1", "--strategy", "allreduce"},
      {"--mesh", "data=1,pipe=1", "--strategy", "allreduce"},
      {"--mesh", "data=2,pipe=3", "--strategy", "zero:1", "--pipeline", "1f1b"},
      {"--mesh", "data=1,pipe=2", "--strategy", "allreduce", "--pipeline", "interleaved", "--recompute"}};
  return all;
}

TEST_F(Meshes, KilledOnOneLayoutARunGoesOnOnAnother) {
  const std::string undisturbed = hash({"--strategy", "allreduce", "-w", "1"});
  std::mt19937 random(15);
  const int pairs = exhaustive() ? 20 : 2;
  for (int pair = 0; pair < pairs; ++pair) {
    const std::size_t first = random() % some_layouts().size();
    const std::size_t second = (first + 1 + random() % (some_layouts().size() - 1)) % some_layouts().size();
    const std::string run = (folder_ / ("run" + std::to_string(pair))).string();
    expect_resumed(run, some_layouts()[first], some_layouts()[second], 2 + 2 * static_cast<int>(random() % 3),
                   undisturbed);
  }
}

TEST_F(Meshes, KilledOnOneLayoutOfTensorLanesARunGoesOnOnAnother) {
  const Flags lanes{"--tensor-lanes", "2"};
  const std::string undisturbed = hash(all_of({lanes, {"--mesh", "data=1", "--strategy", "allreduce"}}));
  expect_resumed((folder_ / "fewer").string(), all_of({lanes, {"--mesh", "data=2,tensor=2", "--strategy", "zero:1"}}),
                 {"--mesh", "data=1,pipe=2,tensor=1", "--strategy", "allreduce"}, 2, undisturbed);
  if (!exhaustive()) return;
  expect_resumed((folder_ / "more").string(), all_of({lanes, {"--mesh", "data=3", "--strategy", "zero:2"}}),
                 {"--mesh", "data=2,pipe=2,tensor=2", "--strategy", "zero:2"}, 4, undisturbed);
}

TEST_F(Meshes, ARunThatBeginsToCutItsMatricesSaysSoAndGoesOnCuttingThem) {
  const std::string run = (folder_ / "run").string();
  const auto resume = [&](const Flags& flags) {
    const Outcome outcome = run_trireme(folder_, all_of({{"resume", run, "--json"}, flags}));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome;
  };
  const Outcome began = run_trireme(
      folder_,
      all_of({{"train", "--json", "--steps", "2", "--out", run, "--strategy", "allreduce", "-w", "1"}, gpt()}));
  ASSERT_EQ(began.status, 0) << began.err;
  EXPECT_THAT(resume({"--steps", "3", "--mesh", "tensor=2"}).err, HasSubstr("from step 2 on matrices are cut into 2"));
  EXPECT_THAT(resume({"--steps", "4", "--mesh", "data=1"}).err, Not(HasSubstr("matrices are cut")));
  EXPECT_THAT(read_file(run + "/config.toml"), HasSubstr("tensor-lanes=2"));
}

/// Workers are numbered along tensor, then pipe, then data: 1, 2 and 4 differ from worker 0 in one dimension each.
TEST_F(Meshes, KilledInAnyDimensionOfACubeTheRunEndsWithTheSameBits) {
  const Flags lanes{"--tensor-lanes", "2", "--strategy", "allreduce"};
  const std::string undisturbed = hash(all_of({lanes, {"--mesh", "data=1"}}));
  const std::string run = (folder_ / "cube").string();
  Program job(folder_, trireme(all_of({{"train", "--json", "--steps", "12", "--out", run, "--checkpoint-every", "2",
                                        "--step-ms", "300", "--mesh", "data=2,pipe=2,tensor=2"},
                                       lanes,
                                       gpt()})));
  int step = 2;
  for (const int worker : {1, 2, 4}) {
    const std::string checkpoint = run + "/checkpoints/step-00000000" + std::to_string(step) + "/manifest.json";
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(checkpoint); }, 60s)) << job.err();
    const pid_t pid = wait_for_member(job.pid(), "worker", worker, run, std::nullopt);
    ASSERT_GT(pid, 0);
    ::kill(pid, SIGKILL);
    EXPECT_TRUE(eventually([&] { return is_gone(pid); }));
    step += 2;
  }
  const Outcome outcome = job.wait(120s);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.json().value("parameters_sha256", ""), undisturbed) << outcome.err;
}

TEST_F(Meshes, KilledWorkersCostNoBits) {
  for (const Flags& layout : {Flags{"--mesh", "data=2,pipe=2"}, Flags{"-w", "3", "--strategy", "zero:3"}}) {
    const Outcome outcome =
        run_trireme(folder_,
                    all_of({{"chaos", "--steps", "40", "--step-ms", "60", "--checkpoint-every", "10", "--count", "2",
                             "--every", "10", "--roles", "worker", "--faults", "kill"},
                            gpt(),
                            layout}),
                    {}, 120s);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("PASSED"));
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr("the same as the undisturbed run's"));
  }
}

TEST_F(Meshes, WhatCannotBeIsRefusedBeforeAnythingStarts) {
  const std::vector<std::pair<Flags, const char*>> wrong{
      {{"--mesh", "pipe=x"}, "whole number"},
      {{"--mesh", "pip=2"}, "pipe"},
      {{"--mesh", "pipe=2", "-w", "1"}, "needs 2 workers"},
      {{"--mesh", "pipe=2", "--strategy", "ps"}, "allreduce or zero"},
      {{"--mesh", "pipe=2", "--strategy", "zero:3"}, "zero:2"},
      {{"--mesh", "tensor=2", "--prune", "0.5"}, "without tensor"},
      {{"--mesh", "pipe=2", "--histograms", "1"}, "leave the histograms out"},
      {{"--strategy", "zero:3", "-w", "2", "--histograms", "1"}, "zero:2"},
      {{"--mesh", "pipe=2", "--pipeline", "1f2b"}, "1f1b"},
      {{"--mesh", "pipe=2", "--pipeline", "1f1b:2"}, "interleaved:3"},
      {{"--stages", "2,4"}, "--mesh pipe=2"},
      {{"--strategy", "zero:4"}, "zero:1"},
      {{"--strategy", "zero:3", "-w", "2", "--device", "cuda"}, "on a GPU use zero:2"},
      {{"--mesh", "tensor=2", "--tensor-lanes", "3"}, "multiple"},
      {{"--mesh", "pipe=7"}, "at most pipe=6"},
      {{"--mesh", "tensor=3"}, "the nearest is tensor=2"},
      {{"--mesh", "pipe=4", "--pipeline", "zb-v"}, "at most pipe=3"},
      {{"--mesh", "pipe=2", "--stages", "3,4"}, "has 6 layers"},
      {{"--mesh", "pipe=2", "--stages", "1,2,3"}, "for 2 stages"},
      {{"--mesh", "auto", "--strategy", "ps"}, "allreduce or zero"},
      {{"--mesh", "auto", "-w", "2", "--memory", "1mb"}, "--workers 8"},
      {{"--mesh", "pipe=2", "--offload"}, "--strategy ps"},
      {{"-w", "1", "--memory", "2mb"}, "--mesh"}};
  for (const auto& [flags, word] : wrong) {
    const Outcome outcome = run_trireme(folder_, all_of({{"train", "--steps", "1"}, gpt(), flags}));
    EXPECT_EQ(outcome.status, 2) << ::testing::PrintToString(flags) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(word)) << ::testing::PrintToString(flags);
  }
}

}  // namespace
}  // namespace trireme::system_test
