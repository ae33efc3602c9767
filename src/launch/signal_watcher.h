#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>

#include "trireme/deadline.h"

#include "base/file.h"

namespace trireme::launch {

/// What the user at the terminal wants.
enum class StopRequest {
  kNone,
  kStop,     ///< the first signal: end gracefully
  kStopNow,  ///< a second one: end at once
};

struct SignalWatcherOptions {
  /// Signals this close to the first are one request: `timeout` and some job managers send theirs to the process and
  /// then to its group. Nobody types that fast.
  std::chrono::milliseconds together = 200ms;
};

/// Turns SIGINT, SIGTERM, SIGHUP and SIGUSR1 (`sbatch --signal=USR1@120`) into something a loop can poll for, while it
/// lives.
///
/// A signal that was ignored when the watcher was created stays ignored (nohup, background jobs). Signals are caught by
/// a handler that writes to a pipe, so existing threads need no mask. At most one watcher at a time, since handlers
/// belong to the process; the destructor restores the previous ones. Not thread-safe.
class SignalWatcher {
 public:
  /// Throws IoError if no pipe can be created.
  explicit SignalWatcher(SignalWatcherOptions options = {});
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  /// Returns a descriptor that is readable when take() has something new.
  int descriptor() const { return read_end_.get(); }

  /// Returns what was requested since the last call; kNone if nothing. Never waits.
  StopRequest take();

  /// Returns the first signal caught, or 0: a stopped program returns 128 + this.
  int signal() const { return signal_; }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

  SignalWatcherOptions options_;
  FileDescriptor read_end_;
  FileDescriptor write_end_;
  std::array<std::optional<struct sigaction>, kSignals.size()> before_;  // nullopt: ignored, left alone
  int signal_ = 0;
  std::chrono::nanoseconds first_at_{};
};

}  // namespace trireme::launch
