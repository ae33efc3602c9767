#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/wait_board.h"
#include "cluster/environment.h"
#include "cluster/membership.h"
#include "collective/communicator.h"
#include "net/event_loop.h"
#include "observe/run_folder.h"

namespace trireme {

/// What a launcher's first process does for the others, besides its own work.
struct JobHosting {
  std::function<void(const net::Address& master, const std::string& run_folder)> on_listening = {};
  std::function<void()> on_begun = {};  ///< all have joined
};

/// This process as a worker of a job, with all that training needs of it; users see a `Job`.
class JobSession {
 public:
  /// nullopt = alone: with master and server as threads of this process. Throws InvalidArgument, Timeout or PeerLost
  /// (the master or a member is missing), Unauthenticated.
  explicit JobSession(std::optional<cluster::JobEnvironment> place, const JobHosting& hosting = {});
  ~JobSession();

  /// This worker's position among those of the current view, and how many there are. Both change with the view.
  Rank rank() const { return membership_->rank(); }
  std::uint32_t workers() const { return static_cast<std::uint32_t>(view().workers.size()); }
  bool chief() const { return rank() == 0; }

  /// Which of the job's worker processes this is; does not change with the view. Messages name the worker by it.
  std::uint32_t slot() const { return place_.rank; }

  bool alone() const { return alone_; }
  const cluster::JobEnvironment& place() const { return place_; }
  cluster::ViewInfo view() const { return membership_->view(); }
  cluster::Membership& membership() { return *membership_; }
  net::EventLoop& loop() { return loop_; }

  /// Returns whether this process joined while the others train, and is not in their view yet: `rank` and `view` are
  /// then what they would be, and the others do not wait for it. It takes part from the next `regroup` on; see
  /// Membership::learner.
  bool learner() const { return membership_->learner(); }

  /// Learns the current view of the others. Acts as `regroup` if they no longer train.
  bool refresh_view();

  /// Where other workers, and learners, reach this one.
  collective::Endpoint& endpoint() { return endpoint_; }

  /// What this process waits in: heartbeats tell the master.
  WaitBoard& waits() { return waits_; }

  /// Returns `activity` with that.
  cluster::Activity with_waits(cluster::Activity activity) const;

  /// All workers of the job as equals. A learner takes part from then on. The first call connects to them and blocks
  /// until all are connected; it throws Timeout naming the missing ranks, PeerLost. When the job fails, their
  /// operations fail with its reason. Not thread-safe.
  collective::Communicator& ranks();

  /// Drops them if they were needed only once: in later views the workers need not all connect to each other.
  void release_ranks();

  /// Returns how long the host of another member may be silent; 0 = however long, as the master has not said.
  std::chrono::milliseconds silent_after() const;

  /// Says that `member` of the view cannot be reached: the next request for a view tells the master. Thread-safe.
  void note_unreachable(cluster::MemberId member);

  /// Returns whether the workers should move to another view after a step that all agree on: a process wants to join,
  /// or this one was asked to leave (SIGTERM).
  bool regroup_wanted() const;

  /// Goes to the next view: `ranks` are then its workers. Blocks until there is one; false if the job has ended
  /// instead. See Membership::regroup; afterwards it may be a learner. Throws PeerLost with the reason if the job has
  /// failed or the new ranks cannot be reached; a retry may then succeed.
  bool regroup(const std::string& reason, bool done = false);

  /// The folder for the files of this run, which the chief writes; on other workers perhaps nullopt.
  const std::optional<observe::RunFolder>& folder() const { return folder_; }

  /// Returns whether the job was asked to end after the current step.
  bool stop_requested() const { return stop_.load(); }

  /// The options of a Trainer that `trireme run` was given; whoever asks heeds them, or says that it cannot. If nobody
  /// does, the log says so in the end.
  const std::string& take_train_options();

  /// Takes the rows of metrics over all workers that have arrived; only the chief gets them.
  std::vector<MetricsRow> take_rows();

  /// `interrupt` is called, from another thread, when the job has failed or a member of the view is gone, so that a
  /// wait in progress ends.
  void on_failure(std::function<void(const std::string& reason)> interrupt);

  /// Returns why the current view cannot finish its work: the job has failed, or a member is gone; empty if neither.
  std::string view_failure() const;

  /// Returns why the job failed; empty if it did not.
  std::string failure() const;

  /// The same, but waits for a failure until `deadline`: after the loss of a peer the master's reason is better than a
  /// guess.
  std::string wait_for_failure(Deadline deadline) const;

 private:
  struct LocalCluster;

  void start_master(const JobHosting& hosting);
  void start_servers();
  void note_view();
  std::vector<cluster::MemberId> unreachable_members();
  void abort(const std::string& reason);
  void on_regroup(View view, cluster::Regroup when, const std::string& reason);

  bool alone_;
  cluster::JobEnvironment place_;
  std::optional<observe::RunFolder> folder_;
  WaitBoard waits_;
  net::EventLoop loop_{"worker-net", 1};
  collective::Endpoint endpoint_;
  std::unique_ptr<LocalCluster> local_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> options_taken_{false};
  std::atomic<View> regroup_wanted_{0};  // the view that is to end after a step
  Mutex unreachable_mutex_;              // not mutex_: what that one interrupts may find out
  std::vector<cluster::MemberId> unreachable_ TRIREME_GUARDED_BY(unreachable_mutex_);
  mutable Mutex mutex_;
  mutable Condition failed_;
  std::vector<MetricsRow> rows_ TRIREME_GUARDED_BY(mutex_);
  std::string failure_ TRIREME_GUARDED_BY(mutex_);
  View entered_ TRIREME_GUARDED_BY(mutex_) = 0;  // the view this worker is in
  View broken_ TRIREME_GUARDED_BY(mutex_) = 0;   // the last view that lost a member
  std::string broken_because_ TRIREME_GUARDED_BY(mutex_);
  std::function<void(const std::string& reason)> interrupt_ TRIREME_GUARDED_BY(mutex_);
  std::unique_ptr<collective::Communicator> ranks_;  // null until first asked for; set with mutex_
  std::unique_ptr<cluster::Membership> membership_;  // last: its thread calls into the rest
};

}  // namespace trireme
