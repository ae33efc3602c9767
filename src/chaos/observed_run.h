#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "chaos/job_processes.h"
#include "launch/supervisor.h"
#include "observe/step_trace.h"

namespace trireme::chaos {

/// What a chaos run disturbs: `trireme train`, or `trireme run` with a program of one's own.
struct ObservedCommand {
  std::vector<std::string> words;    ///< "train" or "run", and its flags; without --out, --json, --trace-steps
  std::vector<std::string> program;  ///< of "run": the program and its own flags
};

/// Such a command in a separate process, whose steps are followed as they happen. Not thread-safe.
class ObservedRun {
 public:
  /// Starts it in the run folder `run`; its output goes to `log`. `lanes` is for `step`.
  ObservedRun(launch::Supervisor& supervisor, const ObservedCommand& command, const std::filesystem::path& run,
              std::filesystem::path log, Lane lanes);

  /// Waits a moment and reads new events. Returns false once it has ended. `wake`: a descriptor that ends the wait.
  bool watch(int wake);

  /// Returns all events so far, roughly in time order: those of one `watch` are sorted.
  const std::vector<observe::StepEvent>& events() const { return events_; }

  /// Returns the same, sorted: after the end.
  std::vector<observe::StepEvent> sorted_events() const;

  Step step() const;  ///< how far it has got
  pid_t launcher() const { return launcher_; }
  const std::filesystem::path& folder() const { return run_; }
  std::vector<JobProcess> processes() const { return job_processes(launcher_); }

  /// Asks it to end after the current step.
  void ask_to_stop() const;

  /// After the end: returns the result it reported; null if none.
  nlohmann::json result() const;

  /// After the end: returns why it failed, for people; empty if it did not.
  std::string failure() const;

 private:
  void take_events();

  launch::Supervisor& supervisor_;
  std::filesystem::path run_;
  std::filesystem::path log_;
  Lane lanes_;
  observe::TraceFollower traces_;
  std::vector<observe::StepEvent> events_;
  Step furthest_ = 0;
  std::uint64_t units_ = 0;
  pid_t launcher_ = 0;
  int status_ = -1;
};

}  // namespace trireme::chaos
