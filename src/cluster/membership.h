#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "cluster/protocol.h"
#include "net/connection.h"

namespace trireme::cluster {

struct MembershipOptions {
  Role role = Role::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of its role
  net::Address master;     ///< where it is at the start; port 0 = `find_master` tells that too

  /// Where the master is now, if it may be replaced; nothing = nobody leads at the moment. Null: it stays at `master`,
  /// and its end is the job's.
  std::function<std::optional<net::Address>()> find_master = {};
  net::Address own_address;  ///< where this process listens: servers for workers, workers for each other
  bool as_learner = false;   ///< a worker: if others are at work already, it begins as their learner
  std::string secret;
  net::Transport transport = net::Transport::kAuto;  ///< shared memory is never used here
  std::chrono::milliseconds join_within = 150s;
  std::chrono::milliseconds heartbeat_every = 100ms;
  std::chrono::milliseconds master_silent_after = 10s;
  std::chrono::milliseconds master_hangs_after = 2s;       ///< one that can be replaced is given up after this
  std::chrono::milliseconds without_master_within = 120s;  ///< how long to go on while there is none
};

/// This process's place in the job: joins, then keeps the master informed from a thread of its own. A master that can
/// be replaced may die: its successor is found, and what was asked of it is asked again.
class Membership {
 public:
  /// What the heartbeat thread tells; called on that thread.
  struct Events {
    std::function<void(const std::string& reason)> on_abort;  ///< once: the job failed, or the master is gone
    std::function<void()> on_stop;                            ///< end after the current step
    std::function<void()> on_over;                            ///< all workers are done
    std::function<void(const MetricsRow&)> on_row;            ///< chief only: a row of metrics
    std::function<ClockReport()> clocks;                      ///< servers: asked before each heartbeat
    std::function<ShardReports()> shards;                     ///< servers: likewise, about their copies

    /// Workers: the members of `view` have to meet in the next one, see `regroup`. Once per view, and once more if
    /// what was to be after the step has to be now. Servers: this process is no member any more, and has to begin anew.
    std::function<void(View view, Regroup when, const std::string& reason)> on_regroup;
  };

  /// Joins and waits until everybody is here, unless it begins as a learner. Throws Timeout naming who is missing,
  /// PeerLost, Unauthenticated.
  Membership(net::EventLoop& loop, MembershipOptions options, Events events);

  /// Stops the heartbeats; says nothing to the master: see leave().
  ~Membership();

  /// A learner's: that of the others, with this process at the end.
  ViewInfo view() const;

  /// Whether this process is only about to take part, while others are at work: nobody waits for it until it calls
  /// `regroup`.
  bool learner() const;

  /// For a learner: learns what the others' view is now. As `regroup` if they are not at work: then it is no learner
  /// any more.
  bool refresh_view();

  /// This process's place in the view.
  Rank rank() const;

  /// Leaves the present view and waits for the next one with this process in it; false if the job has ended. As long
  /// as there are too few workers for one, this blocks. With `done` all steps are made: there is a next view only if
  /// the chief dies before the end. A process that was expelled becomes a member again, or, if it `as_learner`, a
  /// learner. Throws what the master refused, PeerLost if it is gone.
  bool regroup(const std::string& reason, bool done = false);

  void set_plan(const Plan& plan);

  /// Adds to what the next heartbeat reports: counts are added, clock and lr replaced. Cheap; thread-safe.
  void report(const WorkDone& work);

  /// Work, and what was done of it. Of `request` member and view are filled in here. Throws StaleView if the workers
  /// have to meet in another view.
  LeaseReply lease(LeaseRequest request);

  /// The chief has gone back to a checkpoint: leased work begins again after the first `units`.
  void rewind(std::uint64_t units);

  void post_result(const nlohmann::json& result);

  /// Sends what is not reported yet, and has the row of metrics in progress completed with it.
  void flush() { send_heartbeat(/*last=*/true); }

  /// Asks that the whole job stops after the current step.
  void request_stop(const std::string& reason);

  /// Sends what is not reported yet and says goodbye; `failure` ends the whole job.
  void leave(const std::string& failure = "");

 private:
  template <typename Reply, typename Ask>
  Reply ask(Request kind, const Ask& body, Deadline deadline, const std::string& what);
  std::shared_ptr<net::Connection> connect(const net::Address& address, Deadline deadline, bool await_listener);
  std::shared_ptr<net::Connection> connection() const;
  void find_next_master(const std::shared_ptr<net::Connection>& lost, Deadline deadline, const std::string& reason);
  std::chrono::milliseconds master_patience() const;

  void beat(const std::stop_token& stop);
  void send_heartbeat(bool last = false);
  HeartbeatReply tell(const Heartbeat& heartbeat);
  void tell_abort(const std::string& reason) TRIREME_REQUIRES(beat_mutex_);  // once
  void tell_regroup(const HeartbeatReply& reply) TRIREME_REQUIRES(beat_mutex_);
  JoinReply join(JoinRequest request, std::chrono::milliseconds within);
  MemberId member() const;

  MembershipOptions options_;
  Events events_;
  net::EventLoop& loop_;
  std::atomic<bool> closing_{false};
  Mutex search_mutex_;  // one search for the master at a time
  Mutex beat_mutex_;    // one heartbeat at a time, so that rows arrive in order
  mutable Mutex mutex_;
  std::shared_ptr<net::Connection> connection_ TRIREME_GUARDED_BY(mutex_);
  MemberId member_ TRIREME_GUARDED_BY(mutex_) = 0;
  bool learner_ TRIREME_GUARDED_BY(mutex_) = false;
  ViewInfo view_ TRIREME_GUARDED_BY(mutex_);
  WorkDone unreported_ TRIREME_GUARDED_BY(mutex_);
  std::pair<View, Regroup> regroup_told_ TRIREME_GUARDED_BY(beat_mutex_){0, Regroup::kNo};
  bool stop_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  bool over_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  bool abort_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  std::jthread thread_;
};

}  // namespace trireme::cluster
