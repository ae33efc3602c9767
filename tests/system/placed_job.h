#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/flags/train_flags.h"
#include "net/address.h"
#include "observe/step_trace.h"
#include "tests/system/program.h"

namespace trireme::system_test {

/// A machine that processes can be placed on.
struct Site {
  std::string address = "127.0.0.1";         ///< where its processes listen
  std::vector<std::string> enter_with = {};  ///< words before every command, which take it there; none = we are there
};

struct PlacedJobOptions {
  std::uint32_t workers = 2;  ///< at the start
  std::uint32_t min_workers = 1;
  std::uint32_t servers = 0;        ///< with a replica of each shard; 0 = all-reduce
  std::string consistency = "bsp";  ///< of the servers
  bool own_loop = false;            ///< its program is examples/own_loop.cc, else that of `trireme train`
  std::string store = {};           ///< where the master in charge is found; empty = it cannot be replaced
};

/// A training on four lanes whose processes the test places itself, as the scheduler of a cluster does. It goes on
/// until somebody asks it to stop: its learning rate is constant, so that it can be compared with a run of any length.
/// All processes are killed at the end of the test.
class PlacedJob {
 public:
  explicit PlacedJob(PlacedJobOptions options);

  /// Starts a master with these flags besides the usual ones. Where it listens is in `announced()`.
  std::unique_ptr<Program> start_master(const std::vector<std::string>& flags, const Site& site = {}) const;

  /// Starts the process of a worker.
  Program& start_worker(std::uint32_t slot, const Site& site = {});

  std::unique_ptr<Program> start_server(std::uint32_t slot, const Site& site) const;

  /// Kills the processes of these workers, all before any of them can tell.
  void kill_workers(const std::vector<std::uint32_t>& slots);

  Program& worker(std::uint32_t slot) { return *workers_.at(slot); }

  const std::map<std::uint32_t, std::unique_ptr<Program>>& workers() const { return workers_; }  ///< by slot

  /// The master's address, once one without a store listens.
  net::Address announced() const;

  const TempFolder& folder() const { return folder_; }
  std::filesystem::path run() const { return folder_ / "run"; }
  const std::string& secret() const { return secret_; }

  /// What the workers did so far, in the order of time.
  const std::vector<observe::StepEvent>& events();

  /// Steps that took effect so far.
  Step steps_made();

  /// Waits until `more` further steps took effect; for ASSERT_TRUE.
  ::testing::AssertionResult advances(Step more);

  /// Waits until somebody has logged `event` `times` times; for ASSERT_TRUE.
  static ::testing::AssertionResult logs(const Program& program, const WantedEvent& event, std::size_t times = 1,
                                         std::chrono::milliseconds within = kPatience);

  /// The workers, asked to stop, end well, with the parameters of a run of as many steps that nobody disturbed.
  void expect_undisturbed_end();

  /// Every step was begun once by each of the workers that were there from start to end, all in view 1.
  void expect_each_step_once();

  /// What the chief says at the end: the hash of the parameters.
  std::string parameters() const;

  /// The same of a run of as many steps that nobody disturbed.
  std::string undisturbed_parameters();

 private:
  cli::TrainFlags flags() const;
  std::vector<std::string> command() const;
  Program::Environment place_of(const char* role, std::uint32_t slot) const;

  const PlacedJobOptions options_;
  const std::string secret_;
  TempFolder folder_;
  const std::filesystem::path images_ = make_images(folder_);
  observe::TraceFollower trace_;
  std::vector<observe::StepEvent> events_;
  Step steps_made_ = 0;
  std::map<std::uint32_t, std::unique_ptr<Program>> workers_;  // by slot
};

/// Asks the job of the master at `address` to finish its step and end. From where that can be reached.
void ask_to_stop(const net::Address& address, const std::string& secret);

}  // namespace trireme::system_test
