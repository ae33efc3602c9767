#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "collective/backend.h"
#include "collective/native/endpoint.h"
#include "collective/operation.h"

namespace trireme::collective {

/// An operation on its way.
class Handle {
 public:
  Handle() = default;

  /// Waits until it has ended. Throws what went wrong in it (again and again, if asked again), Timeout if `deadline`
  /// passes first (the operation goes on, and ends by its own deadline).
  void wait(Deadline deadline);
  void wait();

  /// Whether it has ended, well or not.
  bool poll() const;

  bool valid() const { return state_ != nullptr; }

 private:
  friend class Communicator;
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

struct CommunicatorOptions {
  Rank rank = 0;
  View view = 1;
  std::vector<net::Address> members;  ///< the endpoints of all ranks, in order; one = alone
  std::string group = "all";          ///< tells groups of one view apart; the same on all their members
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds connect_within = 30s;
  std::chrono::milliseconds deadline = 30s;  ///< of each operation; asynchronous ones count from their start
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link to each peer (no shared memory then); 0 = as it is
  std::chrono::milliseconds latency{0};  ///< experiments: an asynchronous operation begins this much later
  bool trace_algorithms = false;         ///< logs each new choice of an algorithm, and why
};

/// The members of one view as equals: collective operations among them, matched by the order of the calls.
///
///   Communicator ranks(endpoint, {.rank = 0, .members = addresses});
///   ranks.run(all_reduce(std::span(gradient)));
///   Handle busy = ranks.start(all_reduce(std::span(bucket)));  ...  busy.wait();
///   ranks.run({send(ConstArray(a), 1), recv(Array(b), 1)});    // a group: all of them make progress together
///
/// Thread-safe; threads that share one communicator must call in the same order on all ranks.
///
/// A failure: PeerLost (a rank died; all others hear of it in under a second) and Timeout (a rank is silent; it is
/// named) abort the group: every later call throws PeerLost with that reason until `reconfigure`. InvalidArgument
/// (ranks asked for different things; both are named, on every rank) leaves the group usable.
class Communicator {
 public:
  /// Connects to all members; blocks until all are here. Throws Timeout naming who is missing, PeerLost,
  /// Unauthenticated. `endpoint` outlives the communicator.
  Communicator(Endpoint& endpoint, CommunicatorOptions options);

  /// On another engine that already knows its ranks: MPI, NCCL.
  explicit Communicator(std::unique_ptr<Backend> backend, CommunicatorOptions options = {});

  /// Operations that have not begun are dropped, one in progress is aborted. The others hear that this rank left, and
  /// can still finish what it has finished.
  ~Communicator();

  Rank rank() const;
  std::uint32_t size() const;
  View view() const;

  void run(Operation operation);
  void run(Operation operation, Deadline deadline);

  /// Together: sends and receives make progress at the same time, collectives one after the other, in order.
  void run(std::vector<Operation> group);

  Handle start(Operation operation);

  /// Memory that the ranks of this host share: what lies in it is reduced in place. Zeroed. A collective call: all
  /// ranks ask for the same size, in the same order. Lives until the last user is gone, also after the communicator.
  /// Private memory where there is nobody to share with.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// A communicator over some of the ranks (strictly ascending, this one among them), which are numbered anew in that
  /// order. Called by these ranks only, with the same name.
  std::unique_ptr<Communicator> subgroup(const std::string& name, const std::vector<Rank>& ranks);

  /// Makes the operation in progress, and all later ones, fail with PeerLost for this reason; from any thread.
  void abort(const std::string& reason);

  /// Goes on with the members of another view. Drops what was not finished; shared memory allocated before is private
  /// to each rank from now on. Throws as the constructor does; then the group stays broken until this works, in a later
  /// view.
  void reconfigure(Rank rank, View view, std::vector<net::Address> members);

  /// Who is told of each collective in the background when it is over, and when it began and ended; on another thread.
  /// Set before the first one, or never.
  using Observer = std::function<void(const Operation& operation, Deadline::Clock::time_point began,
                                      Deadline::Clock::time_point ended)>;
  void set_observer(Observer observer);

  /// What was moved so far by this rank.
  Traffic traffic() const;

  /// How the ranks are connected: "shm", "tcp", "tls", "shm+tls", "alone".
  std::string transport() const;

 private:
  class Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace trireme::collective
