#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trireme/types.h"

#include "launch/job/log_follower.h"
#include "observe/run_folder.h"

namespace trireme::launch {

/// What the chief of a job prints, whichever worker that is. Not thread-safe.
class ChiefOutput {
 public:
  /// `folder` outlives it. The chief is worker 0 until `follow` says otherwise.
  explicit ChiefOutput(const observe::RunFolder& folder) : folder_(folder), log_(folder.log("worker 0")) {}

  /// Returns the lines that are new, without those of routine; of the chief before, too, who may have left before it
  /// printed its last ones.
  std::string next_lines();

  /// In this view the chief is the worker of this slot. Counts once per view: at the end the chief leaves before it
  /// prints its last lines, and in a short job that may be all that is ever seen.
  void follow(View view, std::uint32_t slot);

 private:
  const observe::RunFolder& folder_;
  std::uint32_t slot_ = 0;
  View view_ = 0;
  LogFollower log_;
  std::optional<LogFollower> former_;  // of the view before
};

}  // namespace trireme::launch
