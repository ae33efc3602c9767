#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/net/dial.h"

namespace trireme::collective {

/// Knows which ranks live. Each pair of ranks has a connection of its own for this: its end tells of death at once; a
/// short message every 200 ms tells who is stopped, and who is behind. Runs on the endpoint's loop.
class Watch {
 public:
  struct Peer {
    Rank rank = 0;
    net::ProvenStream stream;
  };

  Watch(net::Loop& loop, std::vector<Peer> peers);

  /// Closes the connections. The loop must be running.
  ~Watch();

  /// Tells the others that this rank has begun so many collectives.
  void set_operations(std::uint64_t operations);

  /// Whether somebody is gone, or `abort` was called. One load.
  bool broken() const;

  /// Throws PeerLost that says who is gone; `doing` is what could not be finished.
  [[noreturn]] void throw_broken(const std::string& doing) const;

  /// Breaks the group from this side.
  void abort(const std::string& reason);

  /// Waits a moment for the news of a death to arrive; true if the group is broken.
  bool wait_broken(std::chrono::milliseconds moment) const;

  /// Who holds everybody up at collective number `operations`, for the message of a Timeout: ranks that were not heard
  /// of for a while, else ranks that have not come to this collective.
  std::string suspects(std::uint64_t operations) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::collective
