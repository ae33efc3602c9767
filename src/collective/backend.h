#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "collective/operation.h"

namespace trireme::collective {

/// An engine that carries out operations: native, MPI, NCCL. Not thread-safe, except for `abort` and `traffic`. The
/// caller validates operations. Not to be used again after PeerLost or Timeout.
class Backend {
 public:
  /// Receives how a posted operation ended: nullptr = success.
  using Done = std::function<void(std::exception_ptr problem)>;

  virtual ~Backend() = default;

  virtual Rank rank() const = 0;
  virtual std::uint32_t size() const = 0;

  /// Returns how the ranks are connected: "shm", "tcp", "tls", "shm+tls", "alone"; or the engine's name.
  virtual std::string transport() const = 0;

  /// Carries out a collective; blocks until it is done. Posted operations make progress meanwhile. Throws as
  /// Communicator does.
  virtual void run(const Operation& operation, Deadline deadline) = 0;

  /// Starts a send or recv, which must stay valid until `done` is called: by `run`, `progress` or this call itself.
  virtual void post(const Operation& operation, Deadline deadline, Done done) = 0;

  /// Advances posted operations; waits at most a few milliseconds for one to move. Returns false if none is left.
  virtual bool progress() = 0;

  /// Makes a `progress` that waits return now: there is something to post. Thread-safe.
  virtual void wake() {}

  /// See Communicator.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline deadline) = 0;

  /// Makes `run` throw PeerLost, and posted operations end with it, soon. Thread-safe.
  virtual void abort(const std::string& reason) = 0;

  /// Returns the ranks that have not begun the collective that this one is in, or are silent, as far as it knows.
  /// Thread-safe.
  virtual std::vector<Rank> behind() const { return {}; }

  virtual Traffic traffic() const = 0;
};

}  // namespace trireme::collective
