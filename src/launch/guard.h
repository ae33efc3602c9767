#pragma once

#include <sys/types.h>

#include "base/file.h"

namespace trireme::launch {

/// A tiny process that outlives us by a moment and kills what we leave behind.
///
/// The kernel kills our children when we die (PR_SET_PDEATHSIG), but not theirs: of a script that started a program,
/// only the script. The guard knows every process group, and when our end of its socket closes, however we died, it
/// sends SIGKILL to those that are left. It keeps no file of ours open and ignores what a terminal sends.
class Guard {
 public:
  /// Starts the guard. Throws IoError.
  Guard();

  /// Ends the guard; the groups stay as they are.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Where a group announces itself.
  int descriptor() const { return socket_.get(); }

  /// Puts `group` under guard, or, as a negative number, out of it. Called by the new process itself before it runs the
  /// program, so that there is no moment without a guard. Async-signal-safe; never blocks. Should the guard be gone,
  /// PR_SET_PDEATHSIG remains.
  static void announce(int descriptor, pid_t group) noexcept;

  /// The group is empty: its number may soon belong to somebody else.
  void forget(pid_t group) noexcept { announce(descriptor(), -group); }

 private:
  FileDescriptor socket_;
  pid_t pid_ = -1;
};

}  // namespace trireme::launch
