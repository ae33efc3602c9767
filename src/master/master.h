#pragma once

#include <memory>

#include "cluster/protocol.h"
#include "master/master_log.h"
#include "master/view_policy.h"
#include "net/service.h"

namespace trireme::master {

struct MasterOptions {
  net::ServiceOptions service;
  JobShape shape;
  std::chrono::milliseconds hang_after = 3s;          ///< a member silent for this long counts as hung
  std::chrono::milliseconds gather_within = 120s;     ///< how long to wait for all members at the start
  std::chrono::milliseconds wait_for_members = 600s;  ///< how long to wait for more when too few are left
  std::chrono::milliseconds plan_within = 0s;         ///< how long a death at the start waits for the workers' plan
  MasterLogEntry log_entry;
  std::uint64_t max_views = 0;  ///< give up after this many views; 0 = never
};

/// Decides which members take part, checks that all are alive, leases work to asynchronous workers, sums up progress.
/// It is not on the path of a synchronous step. Threads: one for its service, one for the timer, one that saves.
///
/// A job whose plan is elastic survives the death of members: the remaining ones form the next view, and newcomers
/// join; replicas of parameters take over from a server that is gone. Any other job ends when a member dies.
///
/// A master that takes over from one that died knows what that one saved; the members find it by themselves. Views are
/// saved before any member learns of them, so no two masters ever issue the same one. While the store cannot be
/// reached, requests are answered as always, the current view does not change, and nobody is given up.
class Master {
 public:
  explicit Master(const MasterOptions& options);
  ~Master();

  const net::Address& address() const;

  cluster::JobStatus status() const;

  // What members and observers can ask for over the network, for those in this process. They return when it is noted,
  // not when it is done, and throw InvalidArgument if it is refused.
  void stop(const std::string& reason);
  void scale(const cluster::ScaleRequest& request);
  void checkpoint(const std::string& reason);

  /// Asks all members what they did in their last steps; returns the number of the request.
  std::uint64_t record(Step steps);

  /// Returns what they have answered so far.
  cluster::CollectedSpans recorded(std::uint64_t request) const;

  /// Returns true once every worker has left, or the job has failed.
  bool over() const;

  /// Returns true once no process that was a member is connected any more.
  bool no_members_left() const;

  /// Returns true once another master leads: this one makes no more decisions and should end.
  bool lost_leadership() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::master
