#pragma once

#include <memory>
#include <set>
#include <string>

#include "net/address.h"
#include "net/buffer_pool.h"
#include "net/channel.h"
#include "net/event_loop.h"
#include "net/listener.h"
#include "net/message_codec.h"
#include "net/shm/shm_poller.h"

namespace trireme::net {

/// One authenticated peer of a service, from its connection to its end.
class Session : public FrameReceiver {
 public:
  /// Answers `request`. Thread-safe; may happen long after on_request returned.
  template <typename T>
  void reply(const FrameHeader& request, const T& body, std::vector<Bytes> payload = {},
             std::shared_ptr<const void> hold = nullptr) {
    send_reply(request, kReply, encode_message(body), std::move(payload), std::move(hold));
  }

  /// Answers `request` with an error; the caller there sees it as the same exception.
  void refuse(const FrameHeader& request, const std::exception& problem);

  std::string peer() const { return channel_->peer(); }
  Channel& channel() { return *channel_; }
  std::uint64_t id() const { return id_; }

 protected:
  void send_reply(const FrameHeader& request, std::uint16_t flags, std::string body, std::vector<Bytes> payload,
                  std::shared_ptr<const void> hold);

  std::shared_ptr<Channel> channel_;
  std::uint64_t id_ = 0;
};

using SessionPtr = std::shared_ptr<Session>;

/// What a service does. Calls for one session come one after the other, in the order of its frames; calls for several
/// sessions come at the same time. An exception from on_request is sent to the peer as the answer.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  virtual void on_request(const SessionPtr& session, InFrame frame) = 0;
  virtual void on_disconnect(const SessionPtr& session, const std::string& reason) = 0;
};

struct ServiceOptions {
  ListenerOptions listener;  ///< where to listen, and whom to let in
  FrameLimits limits;
  std::size_t threads = 1;           ///< that serve sockets; shared memory has one thread of its own
  std::shared_ptr<BufferPool> pool;  ///< for payloads; made if absent
};

/// Listens, lets in who knows the secret, and gives the requests to a handler. Owns its threads.
class Service {
 public:
  /// Throws IoError if the port is in use: the message says by which address.
  Service(ServiceOptions options, RequestHandler& handler);

  /// Closes every session and joins; the handler is not called afterwards.
  ~Service();

  const Address& address() const { return address_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  Address address_;
};

}  // namespace trireme::net
