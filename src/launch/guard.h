#pragma once

#include <sys/types.h>

#include "base/file.h"

namespace trireme::launch {

/// A tiny process that outlives us briefly and kills the processes that we leave behind.
///
/// The kernel kills our children when we die (PR_SET_PDEATHSIG), but not their children: of a script that started a
/// program, only the script. The guard knows every process group, and when our end of its socket closes, however we
/// died, it sends SIGKILL to those that are left. It keeps no file of ours open and ignores signals from a terminal.
class Guard {
 public:
  /// Starts the guard. Throws IoError.
  Guard();

  /// Ends the guard; the groups stay as they are.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Returns the descriptor for `announce`.
  int descriptor() const { return socket_.get(); }

  /// Puts `group` under guard, or, as a negative number, removes it. The new process itself calls this before it runs
  /// the program, so that it is never unguarded. Async-signal-safe; never blocks. If the guard is gone,
  /// PR_SET_PDEATHSIG remains.
  static void announce(int descriptor, pid_t group) noexcept;

  /// Removes an empty group: its number may soon be reused.
  void forget(pid_t group) noexcept { announce(descriptor(), -group); }

 private:
  FileDescriptor socket_;
  pid_t pid_ = -1;
};

}  // namespace trireme::launch
