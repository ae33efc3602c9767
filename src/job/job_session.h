#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/environment.h"
#include "cluster/membership.h"
#include "collective/communicator.h"
#include "net/event_loop.h"
#include "observe/run_folder.h"

namespace trireme {

/// This process as a worker of a job, with all that training needs of it; users see a `Job`.
class JobSession {
 public:
  /// nullopt = alone: with master and server as threads of this process. Throws InvalidArgument, Timeout or PeerLost
  /// (nobody there), Unauthenticated.
  explicit JobSession(std::optional<cluster::JobEnvironment> place);
  ~JobSession();

  /// This worker's place among those of the present view, and how many these are. Both change with the view.
  Rank rank() const { return membership_->rank(); }
  std::uint32_t workers() const { return static_cast<std::uint32_t>(view().workers.size()); }
  bool chief() const { return rank() == 0; }

  /// Which of the job's worker processes this is: stays, whoever comes and goes. What people call it by.
  std::uint32_t slot() const { return place_.rank; }

  bool alone() const { return alone_; }
  const cluster::JobEnvironment& place() const { return place_; }
  cluster::ViewInfo view() const { return membership_->view(); }
  cluster::Membership& membership() { return *membership_; }
  net::EventLoop& loop() { return loop_; }

  /// Whether this process has come while the others are at work, and is not one of them yet: `rank` and `view` are then
  /// what they would be, and nobody waits for it. It takes part from the next `regroup` on; see Membership::learner.
  bool learner() const { return membership_->learner(); }

  /// Learns what the others' view is now. As `regroup` if they are not at work any more.
  bool refresh_view();

  /// Where other workers, and learners, reach this one.
  collective::Endpoint& endpoint() { return endpoint_; }

  /// All workers of the job as equals. A learner takes part from then on. The first call connects to them and blocks
  /// until all have made it; it throws Timeout naming who is missing, PeerLost. The failure of the job makes what they
  /// do together fail with its reason. Called by one thread.
  collective::Communicator& ranks();

  /// Forgets them, where they were needed for once only: later views need not connect everybody with everybody.
  void release_ranks();

  /// True if the workers should meet in another view after a step that all agree on: somebody wants to come, or this
  /// process has been asked to go (SIGTERM).
  bool regroup_wanted() const;

  /// Goes to the next view: `ranks` are then its workers. Blocks until there is one; false if the job has ended
  /// instead. See Membership::regroup; afterwards it may be a learner. Throws PeerLost with the reason if the job has
  /// failed or the new ranks cannot be reached: then the next try may do better.
  bool regroup(const std::string& reason, bool done = false);

  /// Where this run leaves its files. On the chief, who writes them; elsewhere perhaps nothing.
  const std::optional<observe::RunFolder>& folder() const { return folder_; }

  /// True once the job is asked to end after the current step.
  bool stop_requested() const { return stop_.load(); }

  /// Rows of metrics over all workers that have come in; the chief gets them.
  std::vector<MetricsRow> take_rows();

  /// `interrupt` is called, from another thread, when the job has failed or a member of the view is gone, so that a
  /// wait in progress ends.
  void on_failure(std::function<void(const std::string& reason)> interrupt);

  /// Why nothing in the present view will be finished: the job has failed, or a member is gone; empty if all is well.
  std::string view_failure() const;

  /// Why the job failed; empty if it did not.
  std::string failure() const;

  /// The same, but waits for a failure until `deadline`: who lost a peer asks the master's word before its own guess.
  std::string wait_for_failure(Deadline deadline) const;

 private:
  struct LocalCluster;

  void start_master();
  void note_view();
  void abort(const std::string& reason);
  void on_regroup(View view, cluster::Regroup when, const std::string& reason);

  bool alone_;
  cluster::JobEnvironment place_;
  std::optional<observe::RunFolder> folder_;
  net::EventLoop loop_{"worker-net", 1};
  collective::Endpoint endpoint_;
  std::unique_ptr<LocalCluster> local_;
  std::atomic<bool> stop_{false};
  std::atomic<View> regroup_wanted_{0};  // the view that is to end after a step
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
