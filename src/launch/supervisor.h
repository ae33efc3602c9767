#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "base/file.h"
#include "launch/exit.h"
#include "launch/guard.h"
#include "launch/process.h"

namespace trireme::launch {

struct SupervisorOptions {
  bool use_pidfd = true;  ///< off (or a kernel without pidfd_open): polls for ended processes every few milliseconds
};

/// Owns processes on this machine: starts them, reports their ends, and leaves none behind, whichever process dies.
///
/// Each process leads its own group. When it ends by itself, the rest of its group is killed; during stop() the rest
/// keeps the remaining grace, because a script dies of SIGTERM before the program it runs. A process that leaves its
/// group on purpose (setsid) has left the Supervisor too.
///
/// Not thread-safe: the thread that created it makes all calls and outlives the processes, because the kernel kills
/// them with the thread that started them. The process becomes a child subreaper and gets SIGCHLD's default action if
/// it was ignored; there is no SIGCHLD handler. A program's typical loop:
///
///     while (supervisor.alive() > 0) {
///       for (const Exit& exit : supervisor.wait(Deadline::in(1s), signals.descriptor())) report(exit);
///       switch (signals.take()) { ... kStop: supervisor.stop(5s); ... kStopNow: supervisor.kill_now(); }
///     }
class Supervisor {
 public:
  /// Throws IoError if no descriptor or process can be created.
  explicit Supervisor(SupervisorOptions options = {});

  /// Kills and reaps what is left; waits at most a second for the kernel to do so.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts a process; returns its pid once the program runs. Throws as spawn() does: IoError "cannot start
  /// './my_program': No such file or directory".
  pid_t start(const ProcessSpec& spec);

  /// Returns the ends since the last call, without waiting.
  std::vector<Exit> poll();

  /// Waits for ends. Returns when there are some, when nothing is alive, when `wake` (a descriptor, or -1) is readable,
  /// or at the deadline; the result is empty in the last three cases.
  std::vector<Exit> wait(Deadline deadline, int wake = -1);

  /// Asks every process to end (SIGTERM to its group); poll() and wait() send SIGKILL once `grace` has passed.
  /// Returns at once. A second call can only shorten the grace.
  void stop(std::chrono::milliseconds grace);

  /// Sends SIGKILL to every group. Returns at once; wait() reports the ends.
  void kill_now();

  /// Sends SIGKILL to the group of one process, if it is there. Returns at once, likewise.
  void kill(pid_t pid);

  /// Returns how many groups still have a member.
  std::size_t alive() const { return processes_.size(); }

  /// Returns worst_status() of all ends so far.
  int worst_status() const { return launch::worst_status(exits_); }

  /// Returns a descriptor that is readable when poll() has something to do: for event loops that do not use wait().
  int descriptor() const { return events_.get(); }

 private:
  struct Process {
    std::string name;
    pid_t pid = 0;  // also the number of its group
    FileDescriptor pidfd = {};
    bool ended = false;         // and reaped; only the rest of its group may be left
    bool told_to_stop = false;  // by stop() or kill_now()
    std::optional<Deadline> kill_at = {};
  };

  void look();
  void collect(Process& process);
  void kill_group(Process& process);
  bool group_is_gone(const Process& process);
  void set_alarm();

  SupervisorOptions options_;
  pid_t thread_;
  FileDescriptor events_;  // epoll: readable when a process ended or the alarm is due
  FileDescriptor alarm_;   // timerfd: the end of a grace, or the next check of a group that lost its leader
  Guard guard_;
  std::vector<Process> processes_;
  std::vector<Exit> unreported_;
  std::vector<Exit> exits_;  // all of them, for worst_status()
};

}  // namespace trireme::launch
