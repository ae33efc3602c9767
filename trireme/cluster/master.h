#pragma once

#include <memory>
#include <string>

#include "trireme/cluster/protocol.h"
#include "trireme/net/service.h"

namespace trireme::cluster {

struct MasterOptions {
  net::ServiceOptions service;
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  std::chrono::milliseconds hang_after = 3s;       ///< a member silent for this long is taken for hung
  std::chrono::milliseconds gather_within = 120s;  ///< how long to wait for all members at the start
};

/// Decides who takes part, watches that all are alive, gives out work to asynchronous workers, adds up progress. It
/// is not on the path of a synchronous step. Threads: one for its service, one that looks at the time.
class Master {
 public:
  explicit Master(MasterOptions options);
  ~Master();

  const net::Address& address() const;

  JobStatus status() const;

  /// True once every worker has left, or the job has failed.
  bool over() const;

  /// True once nobody is connected any more that was a member.
  bool deserted() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A member as the master sees it: input to the decisions below.
struct MemberState {
  Role role = Role::kWorker;
  Rank rank = 0;
  std::int64_t pid = 0;
  bool left = false;
  bool disconnected = false;
  std::chrono::milliseconds silent_for{0};
};

/// What the master should do about a member, and why.
struct Health {
  bool lost = false;
  std::string reason;
};

/// Pure: whether a member of a running job has to be given up.
Health judge_member(const MemberState& member, std::chrono::milliseconds hang_after);

/// Pure: who is still missing, for people: "server 0, worker 1, worker 3".
std::string describe_missing(std::uint32_t workers, std::uint32_t servers, const std::vector<MemberState>& here);

}  // namespace trireme::cluster
