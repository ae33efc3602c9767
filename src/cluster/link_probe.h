#pragma once

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cluster/protocol.h"
#include "net/event_loop.h"

namespace trireme::cluster {

struct LinkProbeOptions {
  std::string secret;
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds every = 500ms;
  std::chrono::milliseconds within = 1s;  ///< in which a member has to answer
};

/// Tries again and again to reach members that did not answer, so that all learn when the network between them is
/// repaired: connects and proves the secret, nothing else. Has a thread while there is anybody to try. Thread-safe.
class LinkProbe {
 public:
  LinkProbe(net::EventLoop& loop, LinkProbeOptions options) : loop_(loop), options_(std::move(options)) {}

  /// These are to be tried from now on, and no others.
  void set_targets(std::vector<MemberInfo> targets);

  /// Returns those that have answered since the last call.
  std::vector<MemberId> take_reached();

 private:
  void run(const std::stop_token& stop);
  bool answers(const MemberInfo& member) const;

  net::EventLoop& loop_;
  const LinkProbeOptions options_;
  Mutex mutex_;
  StoppableCondition changed_;
  std::vector<MemberInfo> targets_ TRIREME_GUARDED_BY(mutex_);
  std::set<MemberId> reached_ TRIREME_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: uses the rest
};

}  // namespace trireme::cluster
