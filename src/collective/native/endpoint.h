#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deadline.h"
#include "trireme/types.h"

#include "net/address.h"
#include "net/connect.h"
#include "net/event_loop.h"

namespace trireme::collective {

struct EndpointOptions {
  std::string host = "127.0.0.1";  ///< where to listen
  std::uint16_t port = 0;          ///< 0 = any free one
  std::string advertise;           ///< the host name given to peers; empty = `host`
  std::string secret;              ///< of the job
  bool allow_plain = false;        ///< accept unencrypted connections from other hosts
  bool await_peers = false;        ///< peers' addresses are known before they listen: retry until they do
};

/// What two ranks connect for. Each pair has one connection of each kind except the last.
enum class Purpose : std::uint8_t {
  kHeartbeat,  ///< heartbeats; its end means death
  kData,       ///< collectives; between ranks that share memory: the descriptors of segments
  kPeer,       ///< send and recv
  kLearner,    ///< from a process that is not a rank yet, see `accept_learner`
};

/// Identifies a connection: both ends use the same name.
struct LinkName {
  View view = 0;
  std::string group;
  Rank from = 0;  ///< the higher rank: it connects
  Rank to = 0;
  Purpose purpose = Purpose::kHeartbeat;

  auto operator<=>(const LinkName&) const = default;
};

/// The address at which other ranks reach this process: listens before its rank is known, and keeps connections that
/// arrive early until a communicator asks for them. Owns a thread.
class Endpoint {
 public:
  explicit Endpoint(EndpointOptions options);
  ~Endpoint();

  const net::Address& address() const;
  const std::string& secret() const;
  net::EventLoop& loop();

  /// Connects to a peer. Throws as net::connect does (HostSilent after `silent_after`, 0 = not before the deadline),
  /// StaleView if the peer has moved on to a later view, or this process does meanwhile.
  net::AuthenticatedStream connect(const net::Address& peer, const LinkName& name, net::Transport transport,
                                   Deadline deadline, std::chrono::milliseconds silent_after = {});

  /// Waits for a peer to connect. Throws Timeout; StaleView if a later view is entered meanwhile.
  net::AuthenticatedStream accept(const LinkName& name, Deadline deadline);

  /// Returns a connection of a process that wants to learn what the ranks of the current view know; nullopt if there is
  /// none; does not wait. Such a process uses any number as `from`.
  std::optional<net::AuthenticatedStream> accept_learner();

  /// Rejects connections of earlier views from now on and drops those waiting.
  void enter_view(View view);

  /// Notes that a peer did not answer at all: whoever forms the next view has to know. Thread-safe.
  void note_unreachable(const net::Address& peer);

  /// Returns the peers that were noted since the last call.
  std::vector<net::Address> take_unreachable();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::collective
