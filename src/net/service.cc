#include "net/service.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "net/secure/handshake.h"
#include "net/tcp_channel.h"

namespace trireme::net {

void Session::refuse(const FrameHeader& request, const std::exception& problem) {
  send_reply(request, kReply | kError, encode_message(describe_error(problem)), {}, nullptr);
}

void Session::send_reply(const FrameHeader& request, std::uint16_t flags, std::string body, std::vector<Bytes> payload,
                         std::shared_ptr<const void> hold) {
  OutFrame frame{.header = request, .body = std::move(body), .payload = std::move(payload), .hold = std::move(hold)};
  frame.header.flags = flags;
  channel_->send(std::move(frame));
}

class Service::Impl {
 public:
  Impl(ServiceOptions options, RequestHandler& handler)
      : options_(std::move(options)),
        handler_(handler),
        poller_(options_.listener.share_memory ? std::make_unique<ShmPoller>(options_.listener.name + "-shm")
                                               : nullptr),
        loop_(options_.listener.name, options_.threads),
        listener_(loop_, options_.listener, [this](AuthenticatedStream stream) { return serve(std::move(stream)); }) {}

  ~Impl() {
    std::set<std::shared_ptr<AcceptedSession>> sessions;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      sessions.swap(sessions_);
    }
    listener_.close();
    for (const auto& session : sessions) session->channel().close("the service stops");
    loop_.stop();
    poller_.reset();
  }

  const Address& address() const { return listener_.address(); }

 private:
  class AcceptedSession : public Session, public std::enable_shared_from_this<AcceptedSession> {
   public:
    AcceptedSession(Impl& service, std::uint64_t id) : service_(service) { id_ = id; }

    void attach(std::shared_ptr<Channel> channel) { channel_ = std::move(channel); }

    std::optional<std::vector<MutableBytes>> place(const FrameHeader& /*header*/) override { return std::nullopt; }

    void on_frame(InFrame frame) override {
      const FrameHeader header = frame.header;
      try {
        service_.handler_.on_request(shared_from_this(), std::move(frame));
      } catch (const std::exception& problem) {
        log_warn("request_refused", "refused a request",
                 {{"peer", peer()}, {"kind", header.kind}, {"reason", problem.what()}});
        refuse(header, problem);
      }
    }

    void on_close(const std::string& reason) override { service_.forget(shared_from_this(), reason); }

   private:
    Impl& service_;
  };

  awaitable<void> serve(AuthenticatedStream stream) {
    const auto session = std::make_shared<AcceptedSession>(*this, next_session_.fetch_add(1));
    if (stream.local()) {
      auto& socket = std::get<Local::socket>(stream.socket);
      {
        const HandshakeWatch watch(socket, options_.listener.handshake_within);
        co_await socket.async_wait(Local::socket::wait_read, use_awaitable);
      }
      // The offer is one datagram-sized message that has begun to arrive: no wait to speak of.
      const auto channel = ShmChannel::accept(
          FileDescriptor(socket.release()), session,
          {.peer = stream.peer, .limits = options_.limits, .own_doorbell = poller_->doorbell()}, Deadline::in(1s));
      session->attach(channel);
      remember(session);
      poller_->add(channel);
      co_return;
    }
    const TcpChannelOptions options{
        .peer = stream.peer, .limits = options_.limits, .pool = options_.pool, .context = loop_.shared_context()};
    if (auto* plain = std::get_if<tcp::socket>(&stream.socket)) {
      session->attach(make_tcp_channel(std::move(*plain), session, options,
                                       {.outgoing = stream.keys.to_client, .incoming = stream.keys.to_service}));
    } else {
      session->attach(
          make_tls_channel(std::get<std::unique_ptr<TlsStream>>(std::move(stream.socket)), session, options));
    }
    remember(session);
    session->channel().start();
  }

  void remember(const std::shared_ptr<AcceptedSession>& session) {
    const MutexLock lock(mutex_);
    if (stopped_) fail<PeerLost>("the service stops");
    sessions_.insert(session);
  }

  void forget(const std::shared_ptr<AcceptedSession>& session, const std::string& reason) {
    {
      const MutexLock lock(mutex_);
      if (stopped_) return;
      sessions_.erase(session);
    }
    handler_.on_disconnect(session, reason);
  }

  ServiceOptions options_;
  RequestHandler& handler_;
  std::atomic<std::uint64_t> next_session_{1};
  Mutex mutex_;
  std::set<std::shared_ptr<AcceptedSession>> sessions_ TRIREME_GUARDED_BY(mutex_);
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;
  std::unique_ptr<ShmPoller> poller_;
  EventLoop loop_;
  Listener listener_;  // last: lets people in from the moment it exists
};

Service::Service(ServiceOptions options, RequestHandler& handler) {
  if (!options.pool) options.pool = std::make_shared<BufferPool>();  // before anybody is let in
  impl_ = std::make_unique<Impl>(std::move(options), handler);
  address_ = impl_->address();
}

Service::~Service() = default;

}  // namespace trireme::net
