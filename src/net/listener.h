#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/connect.h"
#include "net/secure/admission.h"

namespace trireme::net {

struct ListenerOptions {
  std::string name = "service";       ///< for logs
  std::string host = "127.0.0.1";     ///< where to listen; "0.0.0.0" for all interfaces
  std::string advertise;              ///< the host that peers are told; empty = `host`
  std::uint16_t port = 0;             ///< 0 = any free one; see address()
  std::string secret;                 ///< of the job
  std::string role;                   ///< what it is to its peers: "master", "server"; at most 16 characters
  bool allow_plain = false;           ///< accept unencrypted connections from other hosts
  bool share_memory = true;           ///< also listen on a Unix socket for peers on this host
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link to each peer over TCP; 0 = as fast as it goes
  AdmissionLimits unproven;           ///< for peers over the network; local ones of this user have as much besides
  std::chrono::milliseconds handshake_within = 5s;  ///< closed if it takes longer
};

/// Listens, and lets in who proves the job's secret; the counterpart of `connect`. While too many connections are in
/// their handshake, further ones wait in the kernel's queue; idle ones make way for them (see AdmissionLimits).
class Listener {
 public:
  /// What to do with who was let in; runs on the socket's strand. What it throws is logged as a refusal.
  using OnEntry = std::function<awaitable<void>(AuthenticatedStream stream)>;

  /// Throws IoError if the port is in use: the message says by which address.
  Listener(EventLoop& loop, ListenerOptions options, OnEntry on_entry);

  /// Stops listening. The loop must be stopped before the listener is destroyed: handshakes may be under way.
  ~Listener();

  const Address& address() const;

  /// Lets nobody in any more. Thread-safe.
  void close();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::net
