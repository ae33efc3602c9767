#pragma once

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/list.h"
#include "observe/step_trace.h"
#include "tests/system/program.h"

namespace trireme::system_test {

using Flags = std::vector<std::string>;

/// A run on several lanes that goes on until it has been disturbed enough, and has to end with the parameters of one
/// that was not. So no test depends on how fast the machine is.
class DisturbedJob : public ::testing::Test {
 protected:
  explicit DisturbedJob(Flags strategy) : strategy_(std::move(strategy)) {}

  Flags flags(const std::string& out, const std::string& workers, const std::string& step_ms = "5",
              const Flags& more = {}) const {
    Flags all{"train",          "--json",    "--model", "mlp",        "--data-dir",
              images_.string(), "--steps",   "1000000", "--schedule", "constant",
              "--lanes",        lanes_,      "--batch", "16",         "--step-ms",
              step_ms,          "--workers", workers,   "--out",      (folder_ / out).string()};
    all.insert(all.end(), strategy_.begin(), strategy_.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// Has had enough: asks it to stop, and waits for its end.
  static Outcome stopped(Program& job) {
    job.send(SIGTERM);
    return job.wait();
  }

  /// The run has ended well, with the parameters that as many steps give if nobody disturbs them.
  void expect_undisturbed(const Outcome& outcome) {
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const int steps = outcome.json().value("steps", 0);
    ASSERT_GT(steps, 0);
    Flags calm = flags("calm", "1", "0", {"--overwrite"});
    *std::ranges::find(calm, "1000000") = std::to_string(steps);
    const Outcome reference = run_trireme(folder_, calm);
    ASSERT_EQ(reference.status, 0) << reference.err;
    EXPECT_EQ(reference.json().value("steps", 0), steps);
    EXPECT_EQ(outcome.json().value("parameters_sha256", "none"), reference.json().value("parameters_sha256", ""));
  }

  std::string log(const std::string& run, const std::string& process) const {
    const auto file = folder_ / run / "logs" / (process + ".log");
    return std::filesystem::exists(file) ? read_file(file) : "";
  }
  std::string master_log(const std::string& run) const { return log(run, "master"); }

  /// Waits until the master, or another process, has logged that; for ASSERT_TRUE.
  ::testing::AssertionResult logs(const std::string& run, const WantedEvent& event,
                                  const std::string& process = "master") {
    if (eventually([&] { return has_event(log(run, process), event); })) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "no " << event << '\n' << log(run, process);
  }

  /// Waits for a checkpoint of `step` or a later one, since one may be left out while the one before is still being
  /// written. Returns its step; 0 if there is none after a while.
  Step checkpointed(const std::string& run, Step step) const {
    Step newest = 0;
    const bool there = eventually([&] {
      for (const auto& entry : checkpoint::list_checkpoints(folder_ / run / "checkpoints")) {
        if (entry.state == checkpoint::CheckpointEntry::State::kComplete) newest = std::max(newest, entry.step);
      }
      return newest >= step;
    });
    return there ? newest : 0;
  }

  /// Waits until view `number` has formed.
  ::testing::AssertionResult reaches_view(const std::string& run, int number) {
    return logs(run, {"view_formed", {{"view", number}}});
  }

  /// Waits until `more` further steps took effect (of a run with `--trace-steps`); for ASSERT_TRUE.
  ::testing::AssertionResult advances(const std::string& run, Step more) {
    observe::TraceFollower trace(folder_ / run);
    Step made = 0;
    const auto steps_made = [&] {
      for (const observe::StepEvent& event : trace.next()) {
        if (event.kind == observe::StepEvent::Kind::kCommit) made = std::max(made, event.step + 1);
      }
      return made;
    };
    const Step goal = steps_made() + more;
    if (eventually([&] { return steps_made() >= goal; }, 60s)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "step " << goal << " was not made, only " << made;
  }

  /// The number of the last view: how many there have been.
  std::uint64_t views(const std::string& run) const {
    std::uint64_t last = 0;
    for (const LoggedEvent& event : events_in(master_log(run))) {
      if (event.key == "view_formed") last = std::max(last, event.number("view"));
    }
    return last;
  }

  pid_t member(const Program& job, const std::string& run, int slot, const WantedEvent& event) {
    return wait_for_member(job.pid(), "worker", slot, folder_ / run, event);
  }

  /// The master's process; 0 if there is none at the moment.
  static pid_t master(const Program& job) {
    for (const pid_t pid : descendants(job.pid())) {
      if (words_of(pid).find(std::string("\0master\0", 8)) != std::string::npos) return pid;
    }
    return 0;
  }

  /// What the master says of the run; null if it cannot be asked just now.
  nlohmann::json status(const std::string& run) {
    const Outcome outcome = run_trireme(folder_, {"status", (folder_ / run).string(), "--json"});
    return outcome.status == 0 ? outcome.json() : nlohmann::json();
  }

  /// Kills a process of the run, and waits until another one has taken its place, and all copies of parameters are
  /// there again.
  ::testing::AssertionResult killed_and_replaced(const Program& job, const std::string& run, const std::string& role,
                                                 int slot) {
    const pid_t victim = wait_for_member(job.pid(), role, slot, folder_ / run, std::nullopt);
    const std::uint64_t view = views(run);
    if (victim <= 0) return ::testing::AssertionFailure() << "nobody to kill\n" << master_log(run);
    ::kill(victim, SIGKILL);
    const bool replaced = eventually([&] {
      const auto now = status(run);
      if (now.is_null() || now.value("view", std::uint64_t{0}) <= view || now.value("copies_due", 1) > 0) return false;
      const auto is_it = [&](const nlohmann::json& member) {  // not the dead one, which the master may not miss yet
        return member.at("slot") == slot && member.at("pid") != victim;
      };
      return std::ranges::any_of(now.at(role + "s"), is_it) && is_gone(victim);
    });
    return replaced ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << master_log(run);
  }

  /// The newest complete checkpoint before `step`; one is skipped while a busy disk still writes the one before it.
  Step step_before(const std::string& run, Step step) {
    Step newest = 0;
    for (const auto& entry : checkpoint::list_checkpoints(folder_ / run / "checkpoints")) {
      if (entry.state == checkpoint::CheckpointEntry::State::kComplete && entry.step < step)
        newest = std::max(newest, entry.step);
    }
    return newest;
  }

  /// Flips a bit in each data file of a checkpoint.
  void damage_checkpoint(const std::string& run, const std::string& step) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / run / "checkpoints" / step)) {
      if (entry.path().extension() != ".bin") continue;
      std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(100);
      const int byte = file.get();
      file.seekp(100).put(static_cast<char>(byte ^ 1));
    }
  }

  bool scale(const std::string& run, const Flags& to) {
    Flags command{"scale", (folder_ / run).string()};
    command.insert(command.end(), to.begin(), to.end());
    const Outcome outcome = run_trireme(folder_, command);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0;
  }

  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  const Flags strategy_;
  std::string lanes_ = "4";
};

}  // namespace trireme::system_test
