#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/deadline.h"
#include "trireme/types.h"

#include "net/address.h"
#include "net/connect.h"
#include "net/event_loop.h"

namespace trireme::collective {

struct EndpointOptions {
  std::string host = "127.0.0.1";  ///< where to listen
  std::uint16_t port = 0;          ///< 0 = any free one
  std::string advertise;           ///< the host that peers are told; empty = `host`
  std::string secret;              ///< of the job
  bool allow_plain = false;        ///< accept unencrypted connections from other hosts
  bool await_peers = false;        ///< their addresses are known before they listen: tries again until they do
};

/// What two ranks connect for. Each pair has one connection of each, but of the last.
enum class Purpose : std::uint8_t {
  kHeartbeat,  ///< heartbeats; its end tells of death
  kData,       ///< collectives; between ranks that share memory: the descriptors of segments
  kPeer,       ///< send and recv
  kLearner,    ///< from somebody who is no rank yet, see `accept_learner`
};

/// Which connection: both ends say the same.
struct LinkName {
  View view = 0;
  std::string group;
  Rank from = 0;  ///< the higher rank: it connects
  Rank to = 0;
  Purpose purpose = Purpose::kHeartbeat;

  auto operator<=>(const LinkName&) const = default;
};

/// Where the other ranks find this process: listens before anybody knows its rank, and keeps connections that arrive
/// early until a communicator asks for them. Owns a thread.
class Endpoint {
 public:
  explicit Endpoint(EndpointOptions options);
  ~Endpoint();

  const net::Address& address() const;
  const std::string& secret() const;
  net::EventLoop& loop();

  /// Connects to a peer. Throws as net::connect does, StaleView if the peer has gone on to a later view.
  net::AuthenticatedStream connect(const net::Address& peer, const LinkName& name, net::Transport transport,
                                   Deadline deadline);

  /// Waits for a peer to connect. Throws Timeout; StaleView if a later view is entered meanwhile.
  net::AuthenticatedStream accept(const LinkName& name, Deadline deadline);

  /// Somebody who wants to be told what the ranks of the present view know, if there is one; does not wait. They name
  /// themselves by any number as `from`.
  std::optional<net::AuthenticatedStream> accept_learner();

  /// Connections of earlier views are refused from now on, those waiting are dropped.
  void enter_view(View view);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::collective
