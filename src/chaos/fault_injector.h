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
  std::chrono::milliseconds stop_for = 5s;  ///< how long a stopped process is stopped, a slow one slow, a disk full
  std::filesystem::path disk = {};          ///< the folder whose disk may fill up; empty: none
};

/// Does harm to processes, and ends what lasts only for a while. No threads of its own: call `tick` often. Whoever is
/// stopped goes on when it is destroyed.
class FaultInjector {
 public:
  /// Throws IoError where a disk that fills up cannot be made.
  explicit FaultInjector(const FaultInjectorOptions& options);
  ~FaultInjector();
  FaultInjector(const FaultInjector&) = delete;
  FaultInjector& operator=(const FaultInjector&) = delete;

  /// Lets it happen now, to `pid` (not of kDiskFull). Returns what was done, for people. Throws IoError if it cannot be
  /// done here; a process that has just ended is no error.
  std::string inject(FaultKind kind, pid_t pid);

  /// Stops and continues whom the time has come for. Every 10 ms or so.
  void tick();

  /// Something that was injected goes on.
  bool busy() const { return !lasting_.empty(); }

 private:
  struct Lasting {
    FaultKind kind = FaultKind::kStop;
    FileDescriptor process;  // a pidfd: another process that gets the number is safe
    Deadline until;
    bool stopped = true;
    Deadline::Clock::time_point since = Deadline::Clock::now();  // it is stopped, or not
  };

  static void end(Lasting& lasting, std::optional<FullDisk>& disk);

  FaultInjectorOptions options_;
  std::optional<FullDisk> disk_;
  std::vector<Lasting> lasting_;
};

}  // namespace trireme::chaos
