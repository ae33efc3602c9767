#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "chaos/observed_run.h"
#include "chaos/report.h"

namespace trireme::chaos {

/// A training to disturb, and how.
struct ChaosOptions {
  ObservedCommand command;
  std::filesystem::path folder;  ///< of the chaos run, with the runs `reference` and `disturbed` in it
  FaultPlanOptions plan;
  std::chrono::milliseconds stop_for = 5s;   ///< see FaultInjectorOptions
  std::chrono::milliseconds patience = 90s;  ///< how long to wait for a recovery before the next fault
  bool overlap = false;                      ///< do not wait for recoveries, except between faults of servers
  bool reference = true;                     ///< first run the same training undisturbed
  std::chrono::milliseconds soak{0};  ///< not 0: train for this long, instead of a number of steps, and check for leaks
  bool stop_after_faults = false;     ///< end when the job has recovered from the last one
  std::string not_compared;           ///< why the parameters may differ from the reference's; empty: they must not
  WorkPlan work;                      ///< all fields except steps; of a program it is found out
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< receives progress, line by line
};

/// Trains, injects faults into the training and reports the outcome. Trains in separate processes, and leaves none
/// behind. Call it before the process has threads. Throws IoError if a fault cannot be injected here, Error if the
/// undisturbed training fails or leaves no trace of its steps, or the user presses Ctrl-C.
ChaosReport run_chaos(const ChaosOptions& options);

}  // namespace trireme::chaos
