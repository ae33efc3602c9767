#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "launch/job/restart_policy.h"

namespace trireme::launch {

/// The processes of one role that the launcher manages: which run, which are to be restarted and when, how many there
/// should be. Not thread-safe.
class ProcessSet {
 public:
  using Time = RestartPolicy::Time;
  using Start = std::function<pid_t(std::uint32_t slot)>;

  ProcessSet(std::string role, std::uint32_t wanted, RestartOptions restarts, Start start)
      : role_(std::move(role)), initial_(wanted), wanted_(wanted), restarts_(restarts), start_(std::move(start)) {}

  void start_all(Time now);

  /// The same where others are started elsewhere.
  void start_these(const std::vector<std::uint32_t>& slots, Time now);

  /// Returns whether `process` ("worker 3") is one of them.
  bool has(const std::string& process) const { return process.starts_with(role_ + " "); }
  static std::uint32_t slot_of(const std::string& process);

  /// Records that it has ended. Returns true if it was told to: then there is nothing else to do.
  bool note_end(std::uint32_t slot, Time now);

  /// Call it after a failure: decides whether and when it is restarted.
  RestartDecision restart(std::uint32_t slot, Time now);

  /// What the master says: `slots` take part in `view`, and the job has got further there (`advanced`) since the last
  /// call. Failures before that count no more for those of them that were started before this view.
  void note_status(View view, const std::vector<std::uint32_t>& slots, bool advanced);

  /// Starts those whose restart is due. Throws as `Start` does; the one that cannot be started has failed once more,
  /// and is due again later.
  void start_due(Time now);

  /// Sets how many there should be from now on. Starts missing ones; surplus ones get SIGTERM if `to_be_told`,
  /// otherwise they end by themselves. Throws as `Start` does: then there are to be as many as before.
  void resize(std::uint32_t wanted, bool to_be_told, Time now);

  /// Returns those that were started, or restarted, after the last view: when the job is over, too late to take part.
  std::vector<pid_t> latecomers() const;

  std::uint32_t wanted() const { return wanted_; }
  bool running() const { return !pids_.empty(); }

  /// Returns whether none runs, and all that will be started have failed too often.
  bool hopeless() const;

  /// Returns whether none runs and none will be started.
  bool gone() const { return pids_.empty() && restart_at_.empty(); }

  /// Returns whether the slot's process was not there from the beginning.
  bool came_later(std::uint32_t slot) const { return slot >= initial_ || restarted_.contains(slot); }

 private:
  void start(std::uint32_t slot, Time now);
  void start_missing(Time now);
  void release_surplus();

  const std::string role_;
  const std::uint32_t initial_;
  std::uint32_t wanted_;
  RestartPolicy restarts_;
  Start start_;
  std::map<std::uint32_t, pid_t> pids_;  // of the running ones, by slot
  std::map<std::uint32_t, Time> restart_at_;
  std::set<std::uint32_t> avoided_;  // of those, the ones that failed too often
  View view_ = 0;                    // the last one that the master told of
  std::map<std::uint32_t, View> started_in_;
  std::set<std::uint32_t> restarted_;
  std::set<std::uint32_t> released_;  // were told to end
};

}  // namespace trireme::launch
