#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "net/address.h"
#include "net/buffer_pool.h"
#include "net/channel.h"
#include "net/connect.h"
#include "net/event_loop.h"
#include "net/message_codec.h"

namespace trireme::net {

struct ConnectionOptions {
  std::string secret;  ///< of the job
  Transport transport = Transport::kAuto;
  std::string role;                       ///< what must answer there: "master", "server"; empty = anything
  std::string peer_name = "the service";  ///< for messages: "server 2"
  Deadline deadline = Deadline::in(10s);
  FrameLimits limits;
  bool await_listener = true;         ///< tries again while nobody listens there; else that is the peer's end
  std::uint64_t bits_per_second = 0;  ///< experiments: a slow link, without shared memory; 0 = as fast as it goes
  std::chrono::milliseconds silent_after{0};  ///< a host that is silent for so long ends a wait; 0 = the deadline does
};

/// A request on its way, or its answer. Made by Connection::send; wait for it with Connection::wait.
class PendingReply {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }

 private:
  friend class Connection;
  std::atomic<bool> done_{false};
  std::uint64_t request_ = 0;
  std::vector<MutableBytes> sinks_;
  InFrame reply_;
  std::string lost_;  // why there will be no reply; empty = there is one
};

/// The client's side of a service: requests with deadlines, any number on their way. Thread-safe.
class Connection : public FrameReceiver, public std::enable_shared_from_this<Connection> {
 public:
  /// Connects and proves the secret. Shared memory where both are on one host, else TCP or TLS (see Transport).
  /// Retries until the deadline while nobody listens there yet. Throws Unauthenticated, PeerLost, Timeout.
  static std::shared_ptr<Connection> open(EventLoop& loop, const Address& address, ConnectionOptions options);

  /// A connection over a channel that is there already: `make` returns it, for the receiver that it is given.
  using MakeChannel = std::function<std::shared_ptr<Channel>(const std::shared_ptr<FrameReceiver>& receiver)>;
  static std::shared_ptr<Connection> over(const MakeChannel& make);

  ~Connection() override;

  struct Request {
    std::uint16_t kind = 0;
    View view = 0;
    std::string body;
    std::vector<Bytes> payload;       ///< not copied: stays valid until the reply, or until the connection is closed
    std::vector<MutableBytes> sinks;  ///< where the reply's payload goes; the same contract
  };

  /// Sends a request; returns at once, before it has left, with what `wait` takes. Requests leave in the order of the
  /// calls; replies may come in any order. The memory behind `payload` and `sinks` stays the caller's: valid, and left
  /// alone, until the reply is there or the connection is closed, whether or not anybody waits for it. Thread-safe;
  /// never blocks on the peer. Throws PeerLost if the connection is closed already, InvalidArgument if this transport
  /// can never carry the request (shared memory: larger than a ring); then nothing was sent.
  std::shared_ptr<PendingReply> send(Request request);

  /// The answer. Throws what the peer threw, PeerLost if it went, Timeout (naming the peer and `what`) if it is silent,
  /// HostSilent if its host is (see ConnectionOptions::silent_after); after a Timeout the connection is closed, so that
  /// no late answer can write into the caller's memory.
  InFrame wait(const std::shared_ptr<PendingReply>& pending, Deadline deadline, const std::string& what);

  /// Asks and waits: the whole exchange for small messages.
  template <typename Reply, typename Ask>
  Reply call(std::uint16_t kind, View view, const Ask& body, Deadline deadline, const std::string& what) {
    const auto pending = send({.kind = kind, .view = view, .body = encode_message(body), .payload = {}, .sinks = {}});
    return decode_message<Reply>(wait(pending, deadline, what).body_bytes());
  }

  /// Closes; requests on their way fail with PeerLost. Returns when no reply can touch the callers' memory any more.
  void close();

  Channel& channel() { return *channel_; }
  std::string peer() const;
  bool closed() const { return closed_.load(std::memory_order_acquire); }

  /// Returns how long the other host has been silent; 0 without `silent_after`, and for memory that is shared.
  std::chrono::milliseconds host_silence() const { return channel_->host_silence(); }

  std::optional<std::vector<MutableBytes>> place(const FrameHeader& header) override;
  void on_frame(InFrame frame) override;
  void on_close(const std::string& reason) override;

 private:
  Connection() = default;

  std::shared_ptr<PendingReply> find(std::uint64_t request);
  void check_size(const PendingReply& pending, const FrameHeader& header) const;

  std::shared_ptr<Channel> channel_;
  std::chrono::milliseconds silent_after_{0};
  std::atomic<bool> closed_{false};
  Mutex mutex_;
  std::uint64_t next_request_ TRIREME_GUARDED_BY(mutex_) = 1;
  std::map<std::uint64_t, std::shared_ptr<PendingReply>> pending_ TRIREME_GUARDED_BY(mutex_);
  std::string closed_because_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme::net
