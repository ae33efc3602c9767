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
  std::chrono::milliseconds hang_after = 3s;          ///< a member silent for this long is taken for hung
  std::chrono::milliseconds gather_within = 120s;     ///< how long to wait for all members at the start
  std::chrono::milliseconds wait_for_members = 600s;  ///< how long to wait for more when too few are left
  std::chrono::milliseconds plan_within = 0s;         ///< how long a death at the start waits for the workers' plan
  MasterLogEntry log_entry;
  std::uint64_t max_views = 0;  ///< give up after so many memberships; 0 = never
};

/// Decides who takes part, watches that all are alive, gives out work to asynchronous workers, adds up progress. It
/// is not on the path of a synchronous step. Threads: one for its service, one that looks at the time.
///
/// A job whose plan says that it is elastic survives the death of members: whoever is left meets in the next view, and
/// newcomers are taken in; replicas of parameters take over from a server that is gone. The death of any member of
/// another job ends it.
///
/// A master that takes over from one that died knows what that one saved; the members come to it by themselves. Views
/// are saved before anybody is told of them, so no two masters ever give out the same one. While the store cannot be
/// reached the present view stays as it is.
class Master {
 public:
  explicit Master(const MasterOptions& options);
  ~Master();

  const net::Address& address() const;

  cluster::JobStatus status() const;

  /// True once every worker has left, or the job has failed.
  bool over() const;

  /// True once nobody is connected any more that was a member.
  bool no_members_left() const;

  /// True once another master leads: this one decides nothing any more, and should end.
  bool lost_leadership() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::master
