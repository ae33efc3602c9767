#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cluster/assignment.h"
#include "net/service.h"
#include "ps/chunk.h"
#include "ps/protocol.h"
#include "ps/replica_link.h"

namespace trireme::ps {

struct ServerOptions {
  net::ServiceOptions service;
  Rank rank = 0;                    ///< which server this is, for messages
  std::size_t compute_threads = 0;  ///< that update chunks of large requests; 0 = the thread that received the request
  net::Transport transport = net::Transport::kAuto;  ///< to other servers; shared memory is never used there
  std::chrono::milliseconds replica_timeout = 5s;    ///< for each answer of a replica; later it is given up
  std::filesystem::path checkpoints;  ///< the run's folder for them, which the chief sees too; empty = it writes none
  SpanRecorder* spans = nullptr;      ///< what its work takes; null: nobody wants to know. Outlives the server
  CrashHook on_point;                 ///< tests: called at each CrashPoint
};

/// What a server knows about its copies: for the master.
struct ServerStatus {
  View view = 0;                               ///< 0 = not in one yet
  std::vector<cluster::ShardReport> replicas;  ///< of the shards that it is the primary of and that have a replica
};

/// Holds shards of the parameters and updates them, as primary; keeps copies of others, as replica. Runs until it is
/// destroyed.
///
/// It is in one view at a time and refuses requests of another with StaleView. A later view is entered when the master
/// says so (`enter`) or the first worker, or primary, opens with it: shards that it has a place for in both views stay
/// as they are, whatever its role; others are dropped, or begin empty. Contributions that wait are refused then.
///
/// Threads: those of its service receive requests; large ones are spread by chunk over `compute_threads`. A gradient in
/// shared memory is read where the worker left it; one from the network in the buffer it was received into, which also
/// carries the new parameters back. One network thread, and one per replica server, serve the replicas, if there are
/// any. One writes its parts of checkpoints, if it knows where to.
class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();

  const net::Address& address() const;

  /// Goes to `view`, in which this server is member `self`. Idempotent. Throws StaleView if it is in a later one
  /// already, InvalidArgument if the view cannot be (no such server, places that do not fit the tables). Thread-safe.
  void enter(const cluster::ViewInfo& view, MemberId self);

  /// Says how long the host of another server may be silent before its copies are given up; 4 s until then. For the
  /// views that follow. Thread-safe.
  void set_silent_after(std::chrono::milliseconds time);

  ServerStats stats() const;
  ServerStatus status() const;

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
