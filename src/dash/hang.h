#pragma once

#include <string>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::dash {

/// Somebody who keeps others waiting.
struct Culprit {
  std::string who;   ///< "worker 1"
  std::string what;  ///< what it does instead, or that nobody hears of it
  double since_s = 0;
};

/// Whether a job stands still, and who is to blame.
struct HangReport {
  bool hangs = false;
  std::string summary;               ///< one sentence for people
  std::vector<std::string> waiting;  ///< those who wait: "worker 0: wait of step 71, for 4.2 s"
  std::vector<Culprit> culprits;
};

/// Judges from what the members last told: whoever was silent for `silent_after` seconds hangs; if workers wait in a
/// step for `slow_after` seconds, those that do something else keep them waiting. Pure.
HangReport judge_hang(const cluster::JobStatus& status, double silent_after = 1.0, double slow_after = 2.0);

nlohmann::json to_json(const HangReport& report);

}  // namespace trireme::dash
