#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "net/connect.h"

namespace trireme::collective {

/// Knows which ranks live. Each pair of ranks has a connection of its own for this: its end tells of death at once; a
/// short message every 200 ms tells who is stopped, and who is behind. Who leaves says so, and how far it came: the
/// others can still finish what it has finished. Who gives up on a rank tells everybody on which, so that all name the
/// same one, not each other. Runs on the endpoint's loop.
class FailureDetector {
 public:
  struct Peer {
    Rank rank = 0;
    net::AuthenticatedStream stream;
  };

  FailureDetector(Rank self, std::vector<Peer> peers);

  /// Says that this rank leaves and closes the connections; waits a moment for that. The loop must be running.
  ~FailureDetector();

  /// Tells the others that this rank has begun, or finished, so many collectives.
  void set_begun(std::uint64_t collectives);
  void set_finished(std::uint64_t collectives);

  /// Whether somebody is gone without a word, or gave up, or `abort` was called. One load.
  bool broken() const;

  /// The same for collective number `collective`, which also fails if somebody left before it was finished. One load.
  bool broken(std::uint64_t collective) const;

  /// Whether this rank has left.
  bool left(Rank rank) const;

  /// Throws PeerLost that says who is gone, or Timeout if somebody gave up on a silent rank; `context` is what could
  /// not be finished.
  [[noreturn]] void throw_broken(const std::string& context) const;

  /// Breaks the group from this side: to the others it is as if this rank left.
  void abort(const std::string& reason);

  /// A connection ended: waits a moment for the news of who is gone; true if it arrives.
  bool wait_broken(std::chrono::milliseconds moment) const;

  /// The time for collective number `collective` (0 = a message) is up. Returns who holds everybody up: ranks that were
  /// not heard of for a while, else ranks that have not come to this collective. Tells the others.
  std::string give_up(std::uint64_t collective);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::collective
