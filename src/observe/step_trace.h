#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/types.h"

#include "base/numbers/lanes.h"
#include "observe/append_file.h"

namespace trireme::observe {

/// One event of a worker: it began a step, a step took effect for it, a unit turned out to have taken effect before, or
/// it entered a view that goes on with `step` (so all steps below that have taken effect).
struct StepEvent {
  enum class Kind { kBegin, kCommit, kRepeat, kEnter };

  Kind kind = Kind::kBegin;
  std::int64_t at = 0;  ///< nanoseconds of the host's monotonic clock: the same for all its processes
  Step step = 0;
  View view = 0;
  LaneRange lanes;                    ///< the lanes that this worker computed; none for kEnter
  std::optional<std::uint64_t> unit;  ///< asynchronous modes: step * lanes + lane
  std::uint32_t slot = 0;             ///< the worker: from the name of the file
  std::int64_t pid = 0;               ///< and which process of the worker

  bool operator==(const StepEvent&) const = default;
};

/// Returns the current time, in the unit of StepEvent::at.
std::int64_t trace_clock();

/// Returns `begin 1200 7 2 0 4`: a line of a trace, with its newline.
std::string to_line(const StepEvent& event);

/// Parses all but slot and pid. Returns nullopt if it is not a line of a trace.
std::optional<StepEvent> parse_line(std::string_view line);

/// Records what one worker process did and when: `steps-<slot>-<pid>.log` in the run's folder. Each line is one write,
/// so a killed process loses no earlier line.
class StepTrace {
 public:
  /// Throws IoError.
  StepTrace(const std::filesystem::path& run, std::uint32_t slot, std::int64_t pid);

  /// Adds a line with the current time; ignores `at`, `slot` and `pid` of `event`.
  void add(StepEvent event);

 private:
  AppendFile file_;
};

/// Follows the traces of all workers of a run, as they grow and as new ones appear.
class TraceFollower {
 public:
  explicit TraceFollower(std::filesystem::path run) : run_(std::move(run)) {}

  /// Returns the events written since the last call, in time order.
  std::vector<StepEvent> next();

 private:
  struct File {
    std::filesystem::path path;
    std::uint32_t slot = 0;
    std::int64_t pid = 0;
    std::uint64_t read = 0;  // bytes of whole lines
    bool complete = false;   // its process has ended: nothing more will come
  };

  void look_for_files();
  static void read_lines(File& file, std::vector<StepEvent>& events);

  std::filesystem::path run_;
  std::vector<File> files_;
};

/// Returns whether `name` is the file name of a trace.
bool is_step_trace(const std::string& name);

}  // namespace trireme::observe
