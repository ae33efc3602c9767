#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "net/connect.h"

namespace trireme::collective {

/// Knows which ranks are alive. Each pair of ranks has a separate connection for this: its end means death at once; a
/// short message every 200 ms shows which ranks are stopped or behind. A rank that leaves says so, and how far it got:
/// the others can still finish what it has finished. A rank that gives up on another tells all which one, so that all
/// name the same rank, not each other. Runs on the endpoint's loop.
class FailureDetector {
 public:
  struct Peer {
    Rank rank = 0;
    net::AuthenticatedStream stream;
  };

  /// A rank that was not heard of for `silent_after` (0 = however long) counts as gone; `on_silent` is told, on the
  /// endpoint's thread.
  FailureDetector(Rank self, std::vector<Peer> peers, std::chrono::milliseconds silent_after = {},
                  std::function<void(Rank rank)> on_silent = {});

  /// Says that this rank leaves and closes the connections; waits briefly for that. The loop must be running.
  ~FailureDetector();

  /// Tell the others how many collectives this rank has begun, or finished.
  void set_begun(std::uint64_t collectives);
  void set_finished(std::uint64_t collectives);

  /// Returns whether a rank is gone without a farewell, or gave up, or `abort` was called. One load.
  bool broken() const;

  /// Same for collective number `collective`, which also fails if a rank left before finishing it. One load.
  bool broken(std::uint64_t collective) const;

  /// Returns whether this rank has left.
  bool left(Rank rank) const;

  /// Throws PeerLost that says which rank is gone, or Timeout if a rank gave up on a silent one; `context` is what
  /// could not be finished.
  [[noreturn]] void throw_broken(const std::string& context) const;

  /// Breaks the group from this side: to the others it looks as if this rank left.
  void abort(const std::string& reason);

  /// After a connection ended: waits a moment for the news which rank is gone; returns true if it arrives.
  bool wait_broken() const;

  /// Returns the ranks that were silent for a while, or have not begun the collective that this rank has begun last.
  std::vector<Rank> behind() const;

  /// Call it when the time for collective number `collective` (0 = a message) is up. Returns which ranks delay all:
  /// those that were silent for a while, else those that have not reached this collective. Tells the others.
  std::string give_up(std::uint64_t collective);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::collective
