#pragma once

#include <sys/types.h>

#include <span>
#include <string>

namespace trireme::launch {

/// How one supervised process ended.
struct Exit {
  std::string name = {};  ///< as in its ProcessSpec: "worker 1"
  pid_t pid = 0;          ///< already reaped: for messages only
  int status = 0;         ///< as a shell reports it: the exit status, or 128 + signal
  int signal = 0;         ///< the signal that ended it, or 0
  bool by_us = false;     ///< it ended because of Supervisor::stop() or kill_now(): not a failure
  std::string how = {};   ///< "exited with status 3", "died of SIGSEGV (Segmentation fault), core dumped"
};

/// What waitid() reported: `code` is CLD_EXITED, CLD_KILLED or CLD_DUMPED, `value` the exit status or the signal.
struct WaitStatus {
  int code = 0;
  int value = 0;
};

/// Describes the end of a process. `told_to_stop`: we had sent it SIGTERM or SIGKILL before it ended. Then an end by
/// either signal, status 0, and the shell's codes for them (143, 137) count as by us; any other end is still a failure:
/// a checkpoint that could not be written during a stop must not look like success. Pure.
Exit describe_exit(std::string name, pid_t pid, WaitStatus status, bool told_to_stop);

/// Returns the status for all of them: a crash (any signal) beats a failed exit, which beats 0; among equals the
/// largest number. Ends by us do not count. Pure.
int worst_status(std::span<const Exit> exits);

}  // namespace trireme::launch
