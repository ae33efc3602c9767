#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "chaos/report.h"

namespace trireme::chaos {

/// A training to disturb, and how.
struct ChaosOptions {
  std::vector<std::string> train;  ///< arguments of `trireme train`; without --out, --json, --trace-steps
  std::filesystem::path folder;    ///< of the chaos run: its runs are `reference` and `disturbed` there
  FaultPlanOptions plan;
  std::chrono::milliseconds stop_for = 5s;   ///< see FaultInjectorOptions
  std::chrono::milliseconds patience = 90s;  ///< how long to wait for a recovery before the next fault comes anyway
  bool overlap = false;                      ///< do not wait for recoveries, except between faults of servers
  bool reference = true;                     ///< first the same training undisturbed
  std::chrono::milliseconds soak{0};  ///< not 0: train for so long, instead of a number of steps, and watch for leaks
  bool stop_after_faults = false;     ///< end it when the last one is recovered from
  std::string not_compared;           ///< why the parameters need not be those of the reference; empty: they must be
  WorkPlan work;                      ///< all but steps
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< what happens, line by line
};

/// Trains, does harm to the training and tells how it went. Trains in processes of their own, none of which is left
/// behind. Call it before the process has threads. Throws IoError if a fault cannot be made here, Error if the
/// undisturbed training fails or somebody presses Ctrl-C.
ChaosReport run_chaos(const ChaosOptions& options);

}  // namespace trireme::chaos
