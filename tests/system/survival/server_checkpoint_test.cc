// Checkpoints of whole jobs with parameter servers: who writes which part of them.

#include <signal.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/types.h"

#include "base/file.h"
#include "base/random.h"
#include "cli/flags/train_flags.h"
#include "net/address.h"
#include "observe/run_folder.h"
#include "tests/system/program.h"

namespace trireme::system_test {
namespace {

using Flags = std::vector<std::string>;

class ServerCheckpoint : public ::testing::Test {
 protected:
  Flags train_flags(const Flags& more) const {
    Flags all{"train",
              "--json",
              "--model",
              "mlp",
              "--data-dir",
              images_.string(),
              "--batch",
              "24",
              "--threads",
              "1",
              "--step-ms",
              "100",
              "--steps",
              "45",
              "--servers",
              "2",
              "--out",
              run_.string(),
              "--keep-checkpoints",
              "0",
              "--checkpoint-every",
              "10"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  Outcome train(const Flags& more) const { return run_trireme(folder_, train_flags(more)); }

  /// The steps of which there is a checkpoint, each complete and sound, in `parts` parts.
  std::vector<Step> steps_saved(std::size_t parts) const {
    std::vector<Step> steps;
    for (const auto& row : run_trireme(folder_, {"ckpt", "ls", run_.string(), "--json"}).json()) {
      const Step step = row.at("step");
      EXPECT_EQ(row.at("state"), "complete") << step;
      EXPECT_EQ(row.at("parts"), step == 0 ? 1 : parts) << step;  // the first one is the chief's
      const Outcome checked = run_trireme(folder_, {"ckpt", "verify", run_.string(), "--step", std::to_string(step)});
      EXPECT_EQ(checked.status, 0) << checked.out;
      steps.push_back(step);
    }
    return steps;
  }

  /// The first step, every tenth and the last, except those at which the disk was still busy with the one before: the
  /// chief, whose log this is, says so. For any other reason none is skipped.
  static std::vector<Step> steps_due(const std::string& log) {
    std::vector<Step> steps{0, 10, 20, 30, 40, 45};
    for (const LoggedEvent& event : events_in(log)) {
      const bool busy =
          event.key == "checkpoint_skipped" && event.fields.contains("step") && !event.fields.contains("reason");
      if (busy) std::erase(steps, event.number("step"));
    }
    EXPECT_GT(steps.size(), 2u) << log;
    return steps;
  }

  std::string log(const std::string& process) const { return read_file(run_ / "logs" / (process + ".log")); }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  const std::filesystem::path run_ = folder_ / "run";
};

TEST_F(ServerCheckpoint, IsNotSkippedForASlowChiefWithBackupWorkers) {
  const Outcome outcome = train({"--workers", "3", "--backup-workers", "1", "--slow", "0:3"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(steps_saved(3), steps_due(log("worker-0")));
  EXPECT_THAT(log("server-1"), HasEvent("part_written", {{"step", 45}}));
}

TEST_F(ServerCheckpoint, AsynchronousWorkPausesForIt) {
  const Outcome outcome = train({"--workers", "2", "--consistency", "asp"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(steps_saved(3), steps_due(log("worker-0")));
  const Outcome resumed = run_trireme(folder_, {"resume", run_.string(), "--json", "--steps", "50", "--servers", "1"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(resumed.json().value("steps", 0), 50);
}

TEST_F(ServerCheckpoint, LastOneIsRepeatedIfAServerDiesBeforeWritingItsPart) {
  Flags flags = train_flags({"--workers", "2", "--checkpoint-rate", "4mbit"});
  Program job(folder_, trireme(flags));
  const pid_t server = wait_for_member(job.pid(), "server", 1, run_, "shards_held");
  ASSERT_GT(server, 0) << job.err();
  const auto last = run_ / "checkpoints/step-000000045";
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(last); }, 60s)) << log("worker-0");
  ::kill(server, SIGKILL);
  const Outcome outcome = job.wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto rows = run_trireme(folder_, {"ckpt", "ls", run_.string(), "--json"}).json();
  EXPECT_EQ(rows.back().at("step"), 45);
  EXPECT_EQ(rows.back().at("state"), "complete") << log("worker-0");
  EXPECT_EQ(run_trireme(folder_, {"ckpt", "verify", run_.string(), "--step", "45"}).status, 0);
  EXPECT_THAT(log("worker-0"), HasEvent("view_entered"));
}

TEST_F(ServerCheckpoint, ChiefWritesForServersWithoutAFolder) {
  observe::RunFolder::create({.path = run_});
  const std::string secret = random_hex(32);
  const auto announced = run_ / "master.json";
  const Program master(folder_,
                       trireme({"master", "--workers", "1", "--servers", "2", "--announce", announced.string()}),
                       {{"TRIREME_SECRET", secret}});
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(announced); })) << master.err();
  const std::string address = nlohmann::json::parse(read_file(announced)).get<net::Address>().text();
  const Program one(folder_, trireme({"serve", "--master", address}), {{"TRIREME_SECRET", secret}});
  const Program two(folder_, trireme({"serve", "--master", address, "--rank", "1"}), {{"TRIREME_SECRET", secret}});
  const cli::TrainFlags flags{.model = "mlp",
                              .data_dir = images_.string(),
                              .workers = 1,
                              .servers = 2,
                              .consistency = "bsp",
                              .buffers = "average",
                              .steps = 45,
                              .batch = 24,
                              .lanes = 1,
                              .threads = 1,
                              .checkpoint_every = "10",
                              .keep_checkpoints = 0,
                              .step_ms = 100};
  Program worker(folder_, {TRIREME_BINARY_DIR "/trireme-worker", nlohmann::json(flags).dump()},
                 {{"TRIREME_ROLE", "worker"},
                  {"TRIREME_WORKERS", "1"},
                  {"TRIREME_SERVERS", "2"},
                  {"TRIREME_MASTER", address},
                  {"TRIREME_SECRET", secret},
                  {"TRIREME_RUN_DIR", run_.string()}});
  const Outcome outcome = worker.wait();
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(steps_saved(1), steps_due(outcome.err));
}

}  // namespace
}  // namespace trireme::system_test
