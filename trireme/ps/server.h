#pragma once

#include <memory>
#include <string>

#include "trireme/net/service.h"
#include "trireme/ps/chunk.h"
#include "trireme/ps/protocol.h"

namespace trireme::ps {

struct ServerOptions {
  net::ServiceOptions service;
  Rank rank = 0;
  std::size_t compute_threads = 0;  ///< that update chunks of large requests; 0 = the thread that received the request
};

/// Holds a part of the parameters and updates them. One per process; runs until it is destroyed.
///
/// Threads: those of its service receive requests; large ones are spread by chunk over `compute_threads`. A gradient in
/// shared memory is read where the worker left it; one from the network in the buffer it was received into, which also
/// carries the new parameters back.
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  const net::Address& address() const;

  /// The membership this server belongs to: requests of another view are refused. 0 = any (before the first view).
  void set_view(View view);

  ServerStats stats() const;

  /// The workers' clocks as this server knows them: for the master.
  Chunk::Clocks clocks() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What suits this machine: half of its cores for each, at most 4 that serve sockets (at least one) and 8 that update.
/// With two cores no thread only updates: the one that received the request does it.
std::size_t default_service_threads();
std::size_t default_compute_threads();

/// Resident memory of this process in bytes.
std::uint64_t resident_bytes();

}  // namespace trireme::ps
