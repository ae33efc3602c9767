#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "base/file.h"
#include "chaos/fault_plan.h"
#include "chaos/full_disk.h"

namespace trireme::chaos {

struct FaultInjectorOptions {
  std::chrono::milliseconds stop_for = 5s;  ///< how long a process stays stopped or slow, or a disk full
  std::filesystem::path disk = {};          ///< the folder whose disk may fill up; empty: none
};

/// Injects faults into processes, and ends those that last only for a while. Has no thread: call `tick` often. The
/// destructor resumes stopped processes.
class FaultInjector {
 public:
  /// Throws IoError if a disk that fills up cannot be created.
  explicit FaultInjector(const FaultInjectorOptions& options);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /// Injects a fault now, into `pid` (unused for kDiskFull). Returns what was done, for people. Throws IoError if it is
  /// impossible here; a process that has just ended is no error.
  std::string inject(FaultKind kind, pid_t pid);

  /// Stops and resumes the processes that are due. Call it every 10 ms or so.
  void tick();

  /// Returns whether an injected fault still lasts.
  bool busy() const { return !lasting_.empty(); }

 private:
  struct Lasting {
    FaultKind kind = FaultKind::kStop;
    FileDescriptor process;  // a pidfd: safe if the number is reused
    Deadline until;
    bool stopped = true;
    Deadline::Clock::time_point since = Deadline::Clock::now();  // of the current state, stopped or not
  };

  static void end(Lasting& lasting, std::optional<FullDisk>& disk);

  FaultInjectorOptions options_;
  std::optional<FullDisk> disk_;
  std::vector<Lasting> lasting_;
};

}  // namespace trireme::chaos
