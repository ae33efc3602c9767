#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "cluster/clock_estimate.h"
#include "cluster/link_probe.h"
#include "cluster/member_metrics.h"
#include "cluster/protocol.h"
#include "net/connection.h"

namespace trireme::cluster {

/// By how much longer than the master's --hang-after members wait for each other: one that hangs is the master's to
/// give up; theirs is what it cannot see.
inline constexpr std::chrono::milliseconds kMasterFirst{1000};

struct MembershipOptions {
  Role role = Role::kWorker;
  std::uint32_t slot = 0;  ///< which of the processes of its role
  net::Address master;     ///< where it is at the start; port 0 = `find_master` says

  /// Returns where the master is now, if it can be replaced; nullopt = there is no leader at the moment. Where it
  /// throws, because the store is away, the last known address is tried. Null: the master stays at `master`, and its
  /// end is the end of the job.
  std::function<std::optional<net::Address>()> find_master = {};
  net::Address own_address;  ///< where this process listens: servers for workers, workers for each other
  MemberId member = 0;       ///< that this process was before, and would like to be again; 0 = it is new
  bool as_learner = false;   ///< a worker: if others are already at work, it starts as their learner
  std::string secret;
  net::Transport transport = net::Transport::kAuto;  ///< shared memory is never used here
  std::chrono::milliseconds join_within = 150s;
  std::chrono::milliseconds heartbeat_every = 100ms;
  std::chrono::milliseconds master_silent_after = 10s;
  std::chrono::milliseconds master_hangs_after = 2s;       ///< one that can be replaced is given up after this
  std::chrono::milliseconds without_master_within = 120s;  ///< how long to go on without a master
  std::string metrics = {};  ///< where this process serves its own `/metrics`: see MemberMetrics; empty = nowhere
};

/// This process's place in the job: joins, then keeps the master informed from its own thread. If a replaceable master
/// dies, its successor is found and pending requests are repeated.
class Membership {
 public:
  /// Called on the heartbeat thread, or on the one that calls `flush` or `leave`; never two at a time.
  struct Events {
    std::function<void(const std::string& reason)> on_abort;  ///< once: the job failed, or the master is gone
    std::function<void()> on_stop;                            ///< end after the current step
    std::function<void()> on_over;                            ///< all workers are done
    std::function<void(const MetricsRow&)> on_row;            ///< chief only: a row of metrics
    std::function<ClockReport()> clocks;                      ///< servers: called before each heartbeat
    std::function<ShardReports()> shards;                     ///< servers: likewise, about their copies

    /// Workers: the members of `view` must form the next one, see `regroup`. Called once per view, and again if it was
    /// to be after the step and must now be at once. Servers: this process is no longer a member and must start over.
    std::function<void(View view, Regroup when, const std::string& reason)> on_regroup;
  };

  /// Joins and waits until all are there, unless it starts as a learner. Throws Timeout naming those missing, PeerLost,
  /// Unauthenticated.
  Membership(net::EventLoop& loop, MembershipOptions options, Events events);

  /// Stops the heartbeats; does not notify the master: see leave().
  ~Membership();

  /// Returns what tells this launch of the job from all others: random, and the same for all members.
  std::string launch() const;

  /// Returns the current view. For a learner: the others' view, with this process at its end.
  ViewInfo view() const;

  /// Returns whether this process is still catching up while others work: nobody waits for it until it calls `regroup`.
  bool learner() const;

  /// For a learner: updates view() to the others' current view. If they are not at work, this acts as `regroup`, and
  /// the process is no longer a learner. Returns false if the job has ended.
  bool refresh_view();

  /// Returns this process's rank in the view.
  Rank rank() const;

  /// Leaves the current view and waits for the next one with this process in it; returns false if the job has ended.
  /// Blocks as long as there are too few workers for one. With `done` all steps are made: there is a next view only if
  /// the chief dies before the end. A process that was expelled becomes a member again, or, with `as_learner`, a
  /// learner. `unreachable` are members from which this one gets no answer: the next view will not have both. Throws
  /// what the master refused, PeerLost if it is gone.
  bool regroup(const std::string& reason, bool done = false, std::vector<MemberId> unreachable = {});

  /// Returns how long a member may be silent before it is given up, by the master and by others.
  std::chrono::milliseconds hang_after() const;

  void set_plan(const Plan& plan);

  /// Adds to what the next heartbeat reports: counts are added; clock, lr and parts of rows replaced, of which the
  /// latter are reported until they are replaced. Cheap; thread-safe.
  void report(WorkDone work);

  /// From now on each heartbeat says what this process is doing. `activity` is called on the heartbeat's thread.
  void tell_activity(std::function<Activity()> activity);

  /// From now on the master gets what this process did in its last steps, when somebody asks for it. `recording` is
  /// called on the heartbeat's thread.
  void tell_spans(std::function<Recording(const WantedSteps&)> recording);

  /// The chief has the rows up to `step` from before, and wants the later ones. If training has gone back to a
  /// checkpoint, that was in view `back_in`.
  void take_rows_after(Step step, View back_in = 0);

  /// Returns the step up to which the chief has all rows, as far as is known here.
  Step rows_taken() const;

  /// For the chief, after the last step: waits until the row that ends with `step` is there. Gives up after a while, if
  /// somebody died before it reported its part.
  void finish_rows(Step step);

  /// Reports finished work and asks for more. Fills in member, view and number of `request`. Throws StaleView if the
  /// workers must form another view. Calls must not overlap.
  ///
  /// What was finished is reported until it is saved: a master that takes over from one that could not save need not
  /// lease it again.
  LeaseReply lease(LeaseRequest request);

  /// Says that the chief has gone back to a checkpoint: leased work starts again after the first `units`.
  void rewind(std::uint64_t units);

  void post_result(const nlohmann::json& result);

  /// Sends what is not reported yet.
  void flush() { send_heartbeat(); }

  /// Asks the whole job to stop after the current step.
  void request_stop(const std::string& reason);

  /// Sends what is not reported yet and leaves the job; `failure` ends the whole job.
  void leave(const std::string& failure = "");
  bool left() const { return left_.load(); }  ///< whether it was called

 private:
  /// What a request for work reported.
  struct FinishedUnits {
    std::uint64_t request = 0;  // its number
    std::vector<UnitRange> units;
  };

  template <typename Reply, typename Ask>
  Reply ask(Request kind, const Ask& body, Deadline deadline, const std::string& what);
  std::shared_ptr<net::Connection> connect(const net::Address& address, Deadline deadline, bool await_listener);
  std::shared_ptr<net::Connection> connection() const;
  void find_next_master(const std::shared_ptr<net::Connection>& lost, Deadline deadline, const std::string& reason);
  std::optional<net::Address> where_is_master() const TRIREME_REQUIRES(search_mutex_);
  void use_master_at(const net::Address& address, std::chrono::milliseconds patience) TRIREME_REQUIRES(search_mutex_);
  void follow_leader() TRIREME_REQUIRES(beat_mutex_);
  std::chrono::milliseconds master_patience() const;

  void beat(const std::stop_token& stop);
  void send_heartbeat();
  HeartbeatReply tell(const Heartbeat& heartbeat) TRIREME_REQUIRES(beat_mutex_);
  void take_rows(const HeartbeatReply& reply) TRIREME_REQUIRES(beat_mutex_);
  void send_spans(MemberId self, const HeartbeatReply& reply) TRIREME_REQUIRES(beat_mutex_);
  void tell_abort(const std::string& reason) TRIREME_REQUIRES(beat_mutex_);  // only once
  void tell_regroup(const HeartbeatReply& reply) TRIREME_REQUIRES(beat_mutex_);
  JoinReply join(JoinRequest request, std::chrono::milliseconds within);
  MemberId member() const;

  MembershipOptions options_;
  Events events_;
  net::EventLoop& loop_;
  std::atomic<bool> closing_{false};
  Mutex search_mutex_;                                           // one search for the master at a time
  net::Address last_address_ TRIREME_GUARDED_BY(search_mutex_);  // of the master; port 0 = unknown
  Mutex beat_mutex_;  // one heartbeat at a time, so that rows arrive in order
  mutable Mutex mutex_;
  std::shared_ptr<net::Connection> connection_ TRIREME_GUARDED_BY(mutex_);
  MemberId member_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::uint64_t lease_requests_ TRIREME_GUARDED_BY(mutex_) = 0;
  View leases_of_ TRIREME_GUARDED_BY(mutex_) = 0;  // the view in which the next were finished
  std::deque<FinishedUnits> unsaved_ TRIREME_GUARDED_BY(mutex_);
  bool learner_ TRIREME_GUARDED_BY(mutex_) = false;
  std::chrono::milliseconds hang_after_ TRIREME_GUARDED_BY(mutex_){0};
  ViewInfo view_ TRIREME_GUARDED_BY(mutex_);
  std::string launch_ TRIREME_GUARDED_BY(mutex_);
  WorkDone unreported_ TRIREME_GUARDED_BY(mutex_);
  std::function<Activity()> activity_ TRIREME_GUARDED_BY(mutex_);
  std::function<Recording(const WantedSteps&)> recording_ TRIREME_GUARDED_BY(mutex_);
  RowsTaken rows_ TRIREME_GUARDED_BY(mutex_);       // of the chief
  Step rows_taken_ TRIREME_GUARDED_BY(mutex_) = 0;  // by the chief, as the master says
  std::pair<View, Regroup> regroup_told_ TRIREME_GUARDED_BY(beat_mutex_){0, Regroup::kNo};
  bool stop_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  bool over_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  bool abort_told_ TRIREME_GUARDED_BY(beat_mutex_) = false;
  Deadline::Clock::time_point follow_at_ TRIREME_GUARDED_BY(beat_mutex_){};  // when to ask the store again who leads
  Deadline::Clock::time_point load_told_at_ TRIREME_GUARDED_BY(beat_mutex_){};
  ClockEstimate clock_ TRIREME_GUARDED_BY(beat_mutex_);
  std::unique_ptr<MemberMetrics> metrics_;  // null: nobody asked for them
  std::atomic<bool> left_ = false;
  LinkProbe probe_;  // members that did not answer; the heartbeats tell
  std::jthread thread_;
};

}  // namespace trireme::cluster
