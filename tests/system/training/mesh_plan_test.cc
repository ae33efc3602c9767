// The planner at work in whole jobs: `trireme plan --calibrate`, --mesh auto, --memory, --offload; and models that do
// not fit into what a process may have.

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "plan/predict.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class PlannedMesh : public ::testing::Test {
 protected:
  PlannedMesh() {
    std::string text;
    for (int i = 0; i < 3000; ++i) text += std::to_string(i * i) + " ";
    std::ofstream(folder_ / "numbers.txt") << text;
  }

  Outcome train(const Flags& flags) {
    Flags words{"train",     "--json", "--data",  (folder_ / "numbers.txt").string(),
                "--length",  "16",     "--batch", "8",
                "--threads", "1",      "--steps", "6"};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_trireme(folder_, words, {{"XDG_CACHE_HOME", folder_.path().string()}}, 120s);
  }

  TempFolder folder_;
};

const Flags kGpt{"--model", "gpt-tiny:layers=4,dropout=0.1"};

Flags with(Flags flags, const Flags& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

TEST_F(PlannedMesh, AutoTakesPlainDataParallelismWhereThatIsBest) {
  const Outcome outcome = train(with(kGpt, {"--mesh", "auto", "-w", "2"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("mesh auto: --workers 2 --strategy allreduce --lanes 2: plain data parallelism"));
  EXPECT_EQ(outcome.json().value("strategy", ""), "allreduce");
}

TEST_F(PlannedMesh, AutoDividesWhatDoesNotFit_WithTheBitsOfOneWorker) {
  const Outcome outcome = train(with(kGpt, {"--mesh", "auto", "-w", "4", "--memory", "2mb", "--lanes", "4"}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("mesh auto: --mesh data="));
  EXPECT_THAT(outcome.err, HasSubstr("of 2.0 MB per worker"));
  const Outcome alone = train(with(kGpt, {"--strategy", "allreduce", "-w", "1", "--lanes", "4"}));
  EXPECT_EQ(outcome.json().value("parameters_sha256", ""), alone.json().value("parameters_sha256", "-"));
}

TEST_F(PlannedMesh, AutoKeepsGroupsOfZeroAndStagesPerWorker) {
  const Outcome zero = train(with(kGpt, {"--mesh", "auto", "-w", "4", "--strategy", "zero:2,shards=2"}));
  ASSERT_EQ(zero.status, 0) << zero.err;
  EXPECT_THAT(zero.err, HasSubstr("--strategy zero:2,shards=2"));
  EXPECT_EQ(zero.json().value("strategy", ""), "zero:2,shards=2");
  const Outcome piped = train(
      with(kGpt, {"--mesh", "auto", "-w", "2", "--pipeline", "interleaved:3", "--memory", "4mb", "--lanes", "4"}));
  ASSERT_EQ(piped.status, 0) << piped.err;
  EXPECT_THAT(piped.err, HasSubstr("--pipeline interleaved:3 "));
}

/// The bytes behind "key=" in a line of a log.
double bytes_in(const std::string& line, const std::string& key) {
  const std::size_t at = line.find(" " + key + "=");
  return at == std::string::npos ? 0 : std::stod(line.substr(at + key.size() + 2));
}

/// The most that a worker of a run says it held.
double held_by_the_fullest(const std::filesystem::path& run) {
  double most = 0;
  for (const auto& log : std::filesystem::directory_iterator(run / "logs")) {
    std::istringstream lines(read_file(log.path()));
    for (std::string line; std::getline(lines, line);) {
      if (line.find("event=memory_held") == std::string::npos) continue;
      double bytes = 0;
      for (const char* part : {"parameters", "gradients", "optimizer", "in_transit", "tensors"}) {
        bytes += bytes_in(line, part);
      }
      most = std::max(most, bytes);
    }
  }
  return most;
}

TEST_F(PlannedMesh, MemoryIsWhatIsPredicted) {
  struct Layout {
    plan::Arrangement arrangement;
    Flags flags;
  };
  const std::vector<Layout> layouts{
      {{.mesh = {.data = 2}, .zero = 2, .micro_batches = 4}, {"-w", "2", "--strategy", "zero:2"}},
      {{.mesh = {.data = 2}, .zero = 3, .micro_batches = 4}, {"-w", "2", "--strategy", "zero:3"}},
      {{.mesh = {.pipe = 2}, .micro_batches = 8}, {"--mesh", "pipe=2"}},
      {{.mesh = {.pipe = 2}, .schedule = plan::ScheduleKind::kZbH1, .micro_batches = 8},
       {"--mesh", "pipe=2", "--pipeline", "zb-h1"}},
      {{.mesh = {.tensor = 2}, .micro_batches = 8}, {"--mesh", "tensor=2"}}};
  const plan::Workload workload{
      .model = plan::model_cost("gpt-tiny:layers=4,width=128", {.length = 16, .classes = 256}), .batch = 8};
  int runs = 0;
  for (const auto& [arrangement, flags] : layouts) {
    const std::filesystem::path run = folder_ / ("run" + std::to_string(++runs));
    const Outcome outcome =
        train(with({"--model", "gpt-tiny:layers=4,width=128", "--lanes", "8", "--out", run.string()}, flags));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const plan::Hardware hardware{.workers = 2, .flops = 1e10};
    const double predicted = plan::predict(workload, hardware, arrangement).memory.total();
    EXPECT_NEAR(predicted / held_by_the_fullest(run), 1, 0.05) << plan::to_text(arrangement);
  }
}

TEST_F(PlannedMesh, WhatAutoChoseIsKeptForAResume) {
  const std::string run = (folder_ / "run").string();
  const Outcome outcome = train(with(kGpt, {"--mesh", "auto", "-w", "2", "--memory", "4mb", "--out", run}));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(read_file(run + "/config.toml").find("mesh=\"auto\""), std::string::npos);
  const Outcome resumed = run_trireme(folder_, {"resume", run, "--json", "--steps", "8"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
}

TEST_F(PlannedMesh, CalibrationIsMeasuredKeptAndUsed) {
  const Program::Environment env{{"XDG_CACHE_HOME", folder_.path().string()}};
  const Flags model{"--model", "gpt-tiny", "--length", "16", "--classes", "256"};
  const Outcome measured = run_trireme(folder_, with({"plan", "--calibrate"}, model), env, 120s);
  ASSERT_EQ(measured.status, 0) << measured.err;
  EXPECT_THAT(measured.out, HasSubstr("kept in "));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "trireme" / "calibration.json"));
  const Outcome plan = run_trireme(folder_, with({"plan", "--workers", "2"}, model), env);
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("the times of this model's layers"));
  const Outcome without =
      run_trireme(folder_, with({"plan", "--workers", "2"}, model), {{"XDG_CACHE_HOME", (folder_ / "empty").string()}});
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.err, HasSubstr("trireme plan --calibrate --model gpt-tiny"));
}

TEST_F(PlannedMesh, OffloadLeavesTheOptimizersStateToServers) {
  const Outcome offloaded = train(with(kGpt, {"--offload", "-w", "2", "--lanes", "2"}));
  ASSERT_EQ(offloaded.status, 0) << offloaded.err;
  const Outcome whole = train(with(kGpt, {"--strategy", "allreduce", "-w", "2", "--lanes", "2"}));
  const auto held = [](const Outcome& outcome, const char* what) {
    return outcome.json().at("held_bytes").at(what).get<double>();
  };
  EXPECT_EQ(held(offloaded, "optimizer"), 0);
  EXPECT_EQ(held(offloaded, "parameters"), held(whole, "parameters"));
  EXPECT_EQ(held(whole, "optimizer"), 2 * held(whole, "parameters"));
  EXPECT_EQ(offloaded.json().value("parameters_sha256", ""), whole.json().value("parameters_sha256", "-"));
}

/// While it lives, processes that are started have at most this much memory of their own.
class MemoryCap {
 public:
  explicit MemoryCap(rlim_t bytes) {
    ::getrlimit(RLIMIT_DATA, &before_);
    const rlimit capped{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_DATA, &capped);
  }
  ~MemoryCap() { ::setrlimit(RLIMIT_DATA, &before_); }
  MemoryCap(const MemoryCap&) = delete;
  MemoryCap& operator=(const MemoryCap&) = delete;

 private:
  rlimit before_{};
};

TEST_F(PlannedMesh, AModelLargerThanTheCapOfAProcessTrainsOnAMesh) {
  // 8 blocks of width 768: 57 M parameters, which take 1140 MB with gradients, Adam and averages; a quarter of it on
  // each of 4. What a process takes besides differs by some 100 MB from run to run.
  const Flags large{"--model", "gpt-tiny:layers=8,width=768,heads=8", "--steps", "2", "--optimizer", "adamw", "--ema",
                    "0.9"};
  Flags words{"train",    "--json", "--data",    (folder_ / "numbers.txt").string(),
              "--length", "16",     "--batch",   "8",
              "--lanes",  "2",      "--threads", "1"};
  words = with(words, large);
  const MemoryCap cap(1450u << 20);
  const Outcome alone = run_trireme(folder_, with(words, {"-w", "1", "--strategy", "allreduce"}), {}, 120s);
  EXPECT_NE(alone.status, 0);
  EXPECT_THAT(alone.err, HasSubstr("out of memory"));
  EXPECT_THAT(alone.err, HasSubstr("--mesh"));
  const Outcome divided = run_trireme(folder_, with(words, {"--mesh", "pipe=4"}), {}, 180s);
  EXPECT_EQ(divided.status, 0) << divided.err;
}

}  // namespace
}  // namespace trireme::system_test
