#include "trireme/net/service.h"

#include <unistd.h>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/base/random.h"
#include "trireme/net/handshake.h"
#include "trireme/net/tcp_channel.h"
#include "trireme/net/tls.h"

namespace trireme::net {

void Session::refuse(const FrameHeader& request, const std::exception& problem) {
  send_reply(request, kReply | kError, encode_body(describe_error(problem)), {}, nullptr);
}

void Session::send_reply(const FrameHeader& request, std::uint16_t flags, std::string body, std::vector<Bytes> payload,
                         std::shared_ptr<const void> hold) {
  OutFrame frame{.header = request, .body = std::move(body), .payload = std::move(payload), .hold = std::move(hold)};
  frame.header.flags = flags;
  channel_->send(std::move(frame));
}

namespace {

constexpr std::byte kTlsHandshakeByte{0x16};  // the first byte of every TLS connection; ours start with 'T'

/// Closes a socket whose handshake takes too long. On the socket's strand; ends before the socket does.
template <typename Socket>
class HandshakeWatch {
 public:
  HandshakeWatch(Socket& socket, std::chrono::milliseconds allowed)
      : state_(std::make_shared<State>(State{asio::steady_timer(socket.get_executor(), allowed), &socket})) {
    state_->timer.async_wait([state = state_](const boost::system::error_code& cancelled) {
      boost::system::error_code ignored;
      if (!cancelled && state->socket != nullptr) state->socket->close(ignored);
    });
  }
  ~HandshakeWatch() { call_off(); }
  HandshakeWatch(const HandshakeWatch&) = delete;
  HandshakeWatch& operator=(const HandshakeWatch&) = delete;

  void call_off() {
    state_->socket = nullptr;  // the timer may have run out already, its handler waiting for its turn
    state_->timer.cancel();
  }

 private:
  struct State {
    asio::steady_timer timer;
    Socket* socket;
  };
  std::shared_ptr<State> state_;
};

std::string describe_refusal(const std::exception& problem) {
  const auto* failed = dynamic_cast<const boost::system::system_error*>(&problem);
  if (failed == nullptr) return problem.what();
  if (failed->code() == asio::error::operation_aborted) return "it did not prove the job's secret in time";
  if (failed->code() == asio::error::eof) return "it closed the connection during the handshake";
  return failed->code().message();
}

}  // namespace

class Service::Impl {
 public:
  Impl(ServiceOptions options, RequestHandler& handler)
      : options_(std::move(options)),
        handler_(handler),
        tls_(make_tls_context(options_.secret)),
        loop_(options_.name, options_.threads),
        tcp_acceptor_(asio::make_strand(loop_.context())),
        local_acceptor_(asio::make_strand(loop_.context())) {
    if (!options_.pool) options_.pool = std::make_shared<BufferPool>();
  }

  ~Impl() { stop(); }

  Address listen() {
    Address address{.host = options_.host, .port = options_.port, .host_id = this_host_id(), .unix_name = {}};
    try {
      const auto found = tcp::resolver(loop_.context()).resolve(options_.host, std::to_string(options_.port));
      const tcp::endpoint endpoint = found.begin()->endpoint();
      tcp_acceptor_.open(endpoint.protocol());
      tcp_acceptor_.set_option(tcp::acceptor::reuse_address(true));
      tcp_acceptor_.bind(endpoint);
      tcp_acceptor_.listen();
    } catch (const boost::system::system_error& problem) {
      fail<IoError>("{} cannot listen on {}: {}; name another port, or 0 for any free one", options_.name,
                    address.text(), problem.code().message());
    }
    address.port = tcp_acceptor_.local_endpoint().port();
    if (!options_.advertise.empty()) address.host = options_.advertise;
    asio::co_spawn(tcp_acceptor_.get_executor(), accept_tcp(), asio::detached);
    if (options_.share_memory) {
      poller_ = std::make_unique<ShmPoller>(options_.name + "-shm");
      address.unix_name = fmt::format("trireme-{}-{}", ::getpid(), random_hex(8));
      local_acceptor_.open();
      local_acceptor_.bind(Local::endpoint(std::string(1, '\0') + address.unix_name));
      local_acceptor_.listen();
      asio::co_spawn(local_acceptor_.get_executor(), accept_local(), asio::detached);
    }
    return address;
  }

  void stop() {  // may be called twice
    std::set<std::shared_ptr<AcceptedSession>> sessions;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      sessions.swap(sessions_);
    }
    close_acceptor(tcp_acceptor_);
    close_acceptor(local_acceptor_);
    for (const auto& session : sessions) session->channel().close("the service stops");
    loop_.stop();
    poller_.reset();
  }

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
        log_warn("refused a request", {{"peer", peer()}, {"kind", header.kind}, {"reason", problem.what()}});
        refuse(header, problem);
      }
    }

    void on_close(const std::string& reason) override { service_.forget(shared_from_this(), reason); }

   private:
    Impl& service_;
  };

  template <typename Acceptor>
  static void close_acceptor(Acceptor& acceptor) {
    asio::post(acceptor.get_executor(), [&acceptor] {
      boost::system::error_code ignored;
      acceptor.close(ignored);
    });
  }

  bool admit(const std::string& peer) {
    if (unproven_.fetch_add(1) < options_.max_unproven) return true;
    unproven_.fetch_sub(1);
    log_warn("refused a connection: too many are in their handshake", {{"peer", peer}});
    return false;
  }

  awaitable<void> accept_tcp() {
    for (;;) {
      boost::system::error_code problem;
      tcp::socket socket(asio::make_strand(loop_.context()));
      co_await tcp_acceptor_.async_accept(socket, asio::redirect_error(use_awaitable, problem));
      if (!tcp_acceptor_.is_open()) co_return;
      if (problem) {  // such as no file descriptors left: breathe, then go on
        asio::steady_timer pause(loop_.context(), 50ms);
        co_await pause.async_wait(use_awaitable);
        continue;
      }
      const auto executor = socket.get_executor();
      asio::co_spawn(executor, serve_tcp(std::move(socket)), asio::detached);
    }
  }

  awaitable<void> serve_tcp(tcp::socket socket) {
    boost::system::error_code no_peer;
    const auto remote = socket.remote_endpoint(no_peer);
    if (no_peer) co_return;
    const std::string host = remote.address().to_string();
    std::string peer = fmt::format("tcp {}:{}", host, remote.port());
    if (!admit(peer)) co_return;
    try {
      socket.set_option(tcp::no_delay(true));
      auto stream = std::make_unique<TlsStream>(std::move(socket), *tls_);
      HandshakeWatch watch(stream->next_layer(), options_.handshake_within);
      std::byte first{};
      co_await stream->next_layer().async_receive(asio::buffer(&first, 1), tcp::socket::message_peek, use_awaitable);
      const bool encrypted = first == kTlsHandshakeByte;
      if (encrypted) {
        peer = "tls " + peer.substr(4);
        co_await stream->async_handshake(asio::ssl::stream_base::server, use_awaitable);
        co_await welcome(*stream, options_.secret);
      } else {
        if (!is_loopback(host) && !options_.allow_plain) {
          fail<Unauthenticated>("it did not encrypt; connections from other hosts must use TLS");
        }
        co_await welcome(stream->next_layer(), options_.secret);
      }
      watch.call_off();
      const TcpChannelOptions options{
          .peer = peer, .limits = options_.limits, .pool = options_.pool, .context = loop_.shared_context()};
      const auto session = make_session();
      if (encrypted) {
        session->attach(make_tls_channel(std::move(stream), session, options));
      } else {
        session->attach(make_tcp_channel(std::move(stream->next_layer()), session, options));
      }
      remember(session);
      session->channel().start();
    } catch (const std::exception& problem) {
      log_warn("refused a connection", {{"peer", peer}, {"reason", describe_refusal(problem)}});
    }
    unproven_.fetch_sub(1);
  }

  awaitable<void> accept_local() {
    for (;;) {
      boost::system::error_code problem;
      Local::socket socket(asio::make_strand(loop_.context()));
      co_await local_acceptor_.async_accept(socket, asio::redirect_error(use_awaitable, problem));
      if (!local_acceptor_.is_open()) co_return;
      if (problem) {
        asio::steady_timer pause(loop_.context(), 50ms);
        co_await pause.async_wait(use_awaitable);
        continue;
      }
      const auto executor = socket.get_executor();
      asio::co_spawn(executor, serve_local(std::move(socket)), asio::detached);
    }
  }

  awaitable<void> serve_local(Local::socket socket) {
    const std::string peer = fmt::format("shm {}", options_.name);
    if (!admit(peer)) co_return;
    try {
      HandshakeWatch watch(socket, options_.handshake_within);
      co_await welcome(socket, options_.secret);
      co_await socket.async_wait(Local::socket::wait_read, use_awaitable);
      watch.call_off();
      const auto session = make_session();
      // The offer is one datagram-sized message that has begun to arrive: no wait to speak of.
      const auto channel =
          ShmChannel::accept(FileDescriptor(socket.release()), session,
                             {.peer = peer, .limits = options_.limits, .own_bell = poller_->bell()}, Deadline::in(1s));
      session->attach(channel);
      remember(session);
      poller_->add(channel);
    } catch (const std::exception& problem) {
      log_warn("refused a connection", {{"peer", peer}, {"reason", describe_refusal(problem)}});
    }
    unproven_.fetch_sub(1);
  }

  std::shared_ptr<AcceptedSession> make_session() {
    return std::make_shared<AcceptedSession>(*this, next_session_.fetch_add(1));
  }

  void remember(const std::shared_ptr<AcceptedSession>& session) {
    const std::lock_guard lock(mutex_);
    if (stopped_) fail<PeerLost>("the service stops");
    sessions_.insert(session);
  }

  void forget(const std::shared_ptr<AcceptedSession>& session, const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_) return;
      sessions_.erase(session);
    }
    handler_.on_disconnect(session, reason);
  }

  ServiceOptions options_;
  RequestHandler& handler_;
  std::shared_ptr<asio::ssl::context> tls_;
  std::atomic<std::size_t> unproven_{0};
  std::atomic<std::uint64_t> next_session_{1};
  std::mutex mutex_;
  std::set<std::shared_ptr<AcceptedSession>> sessions_;  // guarded by mutex_
  bool stopped_ = false;                                 // guarded by mutex_
  std::unique_ptr<ShmPoller> poller_;
  Loop loop_;
  tcp::acceptor tcp_acceptor_;
  Local::acceptor local_acceptor_;
};

Service::Service(ServiceOptions options, RequestHandler& handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {
  address_ = impl_->listen();
}

Service::~Service() = default;

}  // namespace trireme::net
