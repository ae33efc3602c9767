#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "trireme/deadline.h"
#include "trireme/error.h"

#include "net/address.h"
#include "net/asio.h"
#include "net/event_loop.h"
#include "net/secure/handshake.h"

namespace trireme::net {

/// Not a single packet of the peer's host arrives: it is down, or the network between the two is broken.
class HostSilent : public Timeout {
 public:
  using Timeout::Timeout;
};

/// A connection whose other end has proven that it knows the job's secret. Nothing has been read beyond that. The
/// socket's executor is a strand of the loop it was made on.
struct AuthenticatedStream {
  using Socket = std::variant<Local::socket, tcp::socket, std::unique_ptr<TlsStream>>;

  Socket socket;
  std::string peer;  ///< for messages: "tls 10.0.0.7:4821"
  FrameKeys keys;    ///< for what follows in the clear

  bool local() const { return std::holds_alternative<Local::socket>(socket); }
};

struct ConnectOptions {
  std::string secret;  ///< of the job
  Transport transport = Transport::kAuto;
  std::string role;                       ///< what must answer there: "master", "server"; empty = anything
  std::string peer_name = "the service";  ///< for messages: "server 2"
  Deadline deadline = Deadline::in(10s);
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link, and no Unix socket; 0 = as fast as it goes
  bool raw = false;                   ///< no frames follow: in the clear only if `transport` says so
  bool await_listener = true;         ///< tries again while nobody listens there; else that is the peer's end

  /// Throws HostSilent if the host is silent for so long, while the deadline may leave time for a busy process; the
  /// kernel goes on asking it for a sign of life (net/dead_peer.h). 0 = nobody asks.
  std::chrono::milliseconds silent_after{0};

  /// Called a few times a second while it waits: what it throws ends the wait, and is thrown. Must not block.
  std::function<void()> check = {};
};

/// Holds what a TCP socket sends down to this speed; 0 = as fast as it goes. Throws IoError.
void throttle(int socket, std::uint64_t bits_per_second);

/// Connects and proves the secret: by Unix socket where both are on one host and may share memory, else TCP or TLS (see
/// Transport). Retries until the deadline if the connection is cut during the handshake, and while nobody listens there
/// yet, if asked to. Blocks; not on the loop's own threads. Throws Unauthenticated if the other side has another
/// secret, PeerLost, Timeout, HostSilent.
AuthenticatedStream connect(EventLoop& loop, const Address& address, const ConnectOptions& options);

}  // namespace trireme::net
