#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/mutex.h"
#include "base/spans.h"
#include "observe/append_file.h"
#include "observe/run_folder.h"

namespace trireme::observe {

/// Records what one process of a run did when: `timeline/worker-0-71.jsonl` in the run's folder, a line per span, which
/// grows as the run does, so that a killed process loses the last moments only. `merge_timeline` makes of all of them
/// one file for Perfetto (ui.perfetto.dev) and chrome://tracing. Thread-safe.
class Timeline final : public SpanRecorder {
 public:
  /// `role` is "worker 0", `pid` that of this process. Throws IoError.
  Timeline(const RunFolder& run, const std::string& role, std::int64_t pid);
  ~Timeline() override;  ///< writes what is left

  /// Keeps up to a million spans; counts and drops later ones.
  void add(const Span& span) override;

  /// Writes what was added so far; does so by itself every now and then.
  void flush();

 private:
  void write() TRIREME_REQUIRES(mutex_);
  void name_thread(std::int64_t thread) TRIREME_REQUIRES(mutex_);

  AppendFile file_;
  Mutex mutex_;
  std::string lines_ TRIREME_GUARDED_BY(mutex_);  // not written yet
  Deadline write_by_ TRIREME_GUARDED_BY(mutex_) = Deadline::in(0s);
  std::map<std::int64_t, bool> named_ TRIREME_GUARDED_BY(mutex_);  // threads
  std::uint64_t spans_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::uint64_t left_out_ TRIREME_GUARDED_BY(mutex_) = 0;
};

/// Writes `timeline.json` with all that the processes of the run, in all its launches, have recorded; does nothing if
/// none has. Times are those of the host's monotonic clock, which its processes share, moved by one amount for all of
/// them so that they are also those of the wall clock: launches before and after a reboot, and other hosts, stand
/// beside each other. Throws IoError.
void merge_timeline(const RunFolder& run);

}  // namespace trireme::observe
