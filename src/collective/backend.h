#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "trireme/deadline.h"

#include "collective/operation.h"

namespace trireme::collective {

/// An engine that carries out operations: native, MPI, NCCL. Used by one thread at a time, except for `abort` and
/// `traffic`. Operations are validated by the caller. After PeerLost or Timeout it is not used again.
class Backend {
 public:
  /// How a posted operation ended: nullptr = well.
  using Done = std::function<void(std::exception_ptr problem)>;

  virtual ~Backend() = default;

  virtual Rank rank() const = 0;
  virtual std::uint32_t size() const = 0;

  /// How the ranks are connected: "shm", "tcp", "tls", "shm+tls", "alone"; or the engine's name.
  virtual std::string transport() const = 0;

  /// Carries out a collective; blocks until it is done. Posted operations make progress meanwhile. Throws as
  /// Communicator does.
  virtual void run(const Operation& operation, Deadline deadline) = 0;

  /// Begins a send or recv, which stays valid until `done` is called: by `run` or `progress`, or by this call itself.
  virtual void post(const Operation& operation, Deadline deadline, Done done) = 0;

  /// Moves posted operations on, waiting a few milliseconds at most for something to move. False if none is left.
  virtual bool progress() = 0;

  /// See Communicator.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline deadline) = 0;

  /// Makes `run` throw PeerLost, and posted operations end with it, soon; from any thread.
  virtual void abort(const std::string& reason) = 0;

  virtual Traffic traffic() const = 0;
};

}  // namespace trireme::collective
