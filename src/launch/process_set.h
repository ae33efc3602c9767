#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "launch/restart_policy.h"

namespace trireme::launch {

/// The processes of one role that the launcher looks after: which run, which are to be started again and when, how many
/// there should be. One thread.
class ProcessSet {
 public:
  using Time = RestartPolicy::Time;
  using Start = std::function<pid_t(std::uint32_t slot)>;

  ProcessSet(std::string role, std::uint32_t wanted, RestartOptions restarts, Start start)
      : role_(std::move(role)), wanted_(wanted), restarts_(restarts), start_(std::move(start)) {}

  void start_all(Time now);

  /// Whether `process` ("worker 3") is one of them.
  bool has(const std::string& process) const { return process.starts_with(role_ + " "); }
  static std::uint32_t slot_of(const std::string& process);

  /// It has ended. True if it was told to: then that is all there is to say.
  bool note_end(std::uint32_t slot, Time now);

  /// It has ended badly: decides whether and when it is started again.
  RestartDecision restart(std::uint32_t slot, Time now);

  /// Starts those whose time has come.
  void start_due(Time now);

  /// There should be `wanted` from now on. Starts those that are missing; those that are too many get SIGTERM if they
  /// are `to_be_told`, else they know by themselves.
  void resize(std::uint32_t wanted, bool to_be_told, Time now);

  std::uint32_t wanted() const { return wanted_; }
  bool running() const { return !pids_.empty(); }

  /// None runs, and none will.
  bool gone() const { return pids_.empty() && restart_at_.empty(); }

  /// Whether the slot's process is not its first.
  bool restarted(std::uint32_t slot) const { return restarted_.contains(slot); }

 private:
  void start(std::uint32_t slot, Time now);

  const std::string role_;
  std::uint32_t wanted_;
  RestartPolicy restarts_;
  Start start_;
  std::map<std::uint32_t, pid_t> pids_;  // of those that run, by slot
  std::map<std::uint32_t, Time> restart_at_;
  std::set<std::uint32_t> restarted_;
  std::set<std::uint32_t> released_;  // were told to go
};

}  // namespace trireme::launch
