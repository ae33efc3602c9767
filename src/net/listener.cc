#include "net/listener.h"

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "net/secure/handshake.h"
#include "net/secure/tls.h"

namespace trireme::net {
namespace {

constexpr std::byte kTlsHandshakeByte{0x16};  // the first byte of every TLS connection; ours start with 'T'

std::string describe_refusal(const std::exception& problem) {
  const auto* failed = dynamic_cast<const boost::system::system_error*>(&problem);
  if (failed == nullptr) return problem.what();
  if (failed->code() == asio::error::operation_aborted) return "it did not prove the job's secret in time";
  if (failed->code() == asio::error::eof) return "it closed the connection during the handshake";
  return failed->code().message();
}

}  // namespace

class Listener::Impl {
 public:
  Impl(EventLoop& loop, ListenerOptions options, OnEntry on_entry)
      : options_(std::move(options)),
        on_entry_(std::move(on_entry)),
        tls_(make_tls_context(options_.secret)),
        loop_(loop),
        tcp_acceptor_(asio::make_strand(loop.context())),
        local_acceptor_(asio::make_strand(loop.context())) {
    listen_tcp();
    if (options_.share_memory) listen_local();
  }

  const Address& address() const { return address_; }

  void close() {
    close_acceptor(tcp_acceptor_);
    close_acceptor(local_acceptor_);
  }

 private:
  void listen_tcp() {
    address_ = {.host = options_.host, .port = options_.port, .host_id = this_host_id(), .unix_name = {}};
    try {
      const auto found = tcp::resolver(loop_.context()).resolve(options_.host, std::to_string(options_.port));
      const tcp::endpoint endpoint = found.begin()->endpoint();
      tcp_acceptor_.open(endpoint.protocol());
      tcp_acceptor_.set_option(tcp::acceptor::reuse_address(true));
      tcp_acceptor_.bind(endpoint);
      tcp_acceptor_.listen();
    } catch (const boost::system::system_error& problem) {
      fail<IoError>("{} cannot listen on {}: {}; name another port, or 0 for any free one", options_.name,
                    address_.text(), problem.code().message());
    }
    address_.port = tcp_acceptor_.local_endpoint().port();
    if (!options_.advertise.empty()) address_.host = options_.advertise;
    asio::co_spawn(tcp_acceptor_.get_executor(), accept<tcp::socket>(tcp_acceptor_), asio::detached);
  }

  void listen_local() {
    address_.unix_name = fmt::format("trireme-{}-{}", ::getpid(), random_hex(8));
    local_acceptor_.open();
    local_acceptor_.bind(Local::endpoint(std::string(1, '\0') + address_.unix_name));
    local_acceptor_.listen();
    asio::co_spawn(local_acceptor_.get_executor(), accept<Local::socket>(local_acceptor_), asio::detached);
  }

  template <typename Acceptor>
  static void close_acceptor(Acceptor& acceptor) {
    asio::post(acceptor.get_executor(), [&acceptor] {
      boost::system::error_code ignored;
      acceptor.close(ignored);
    });
  }

  template <typename Socket, typename Acceptor>
  awaitable<void> accept(Acceptor& acceptor) {
    for (;;) {
      boost::system::error_code problem;
      Socket socket(asio::make_strand(loop_.context()));
      co_await acceptor.async_accept(socket, asio::redirect_error(use_awaitable, problem));
      if (!acceptor.is_open()) co_return;
      if (problem) {  // such as no file descriptors left: breathe, then go on
        asio::steady_timer pause(loop_.context(), 50ms);
        co_await pause.async_wait(use_awaitable);
        continue;
      }
      const auto executor = socket.get_executor();
      asio::co_spawn(executor, accept(std::move(socket)), asio::detached);
    }
  }

  template <typename Socket>
  awaitable<void> accept(Socket socket) {
    std::string peer = name_of(socket);
    if (peer.empty()) co_return;  // it is gone already
    if (unproven_.fetch_add(1) < options_.max_unproven) {
      try {
        co_await on_entry_(co_await prove(std::move(socket), peer));
      } catch (const std::exception& problem) {
        log_warn("connection_refused", "refused a connection", {{"peer", peer}, {"reason", describe_refusal(problem)}});
      }
    } else {
      log_warn("connection_refused", "refused a connection",
               {{"peer", peer}, {"reason", "too many connections are in their handshake"}});
    }
    unproven_.fetch_sub(1);
  }

  std::string name_of(const Local::socket& /*socket*/) const { return fmt::format("shm {}", options_.name); }

  static std::string name_of(const tcp::socket& socket) {
    boost::system::error_code no_peer;
    const auto remote = socket.remote_endpoint(no_peer);
    return no_peer ? "" : fmt::format("tcp {}:{}", remote.address().to_string(), remote.port());
  }

  awaitable<AuthenticatedStream> prove(Local::socket socket, std::string& peer) {
    const HandshakeWatch watch(socket, options_.handshake_within);
    co_await server_handshake(socket, options_.secret);
    co_return AuthenticatedStream{std::move(socket), peer};
  }

  awaitable<AuthenticatedStream> prove(tcp::socket socket, std::string& peer) {
    const bool loopback = is_loopback(socket.remote_endpoint().address().to_string());
    socket.set_option(tcp::no_delay(true));
    throttle(socket.native_handle(), options_.bits_per_second);
    auto stream = std::make_unique<TlsStream>(std::move(socket), *tls_);
    HandshakeWatch watch(stream->next_layer(), options_.handshake_within);
    std::byte first{};
    co_await stream->next_layer().async_receive(asio::buffer(&first, 1), tcp::socket::message_peek, use_awaitable);
    if (first == kTlsHandshakeByte) {
      peer = "tls " + peer.substr(4);
      co_await stream->async_handshake(asio::ssl::stream_base::server, use_awaitable);
      co_await server_handshake(*stream, options_.secret);
      watch.call_off();
      co_return AuthenticatedStream{std::move(stream), peer};
    }
    if (!loopback && !options_.allow_plain) {
      fail<Unauthenticated>("it did not encrypt; connections from other hosts must use TLS");
    }
    co_await server_handshake(stream->next_layer(), options_.secret);
    watch.call_off();
    co_return AuthenticatedStream{std::move(stream->next_layer()), peer};
  }

  ListenerOptions options_;
  OnEntry on_entry_;
  std::shared_ptr<asio::ssl::context> tls_;
  std::atomic<std::size_t> unproven_{0};
  EventLoop& loop_;
  Address address_;
  tcp::acceptor tcp_acceptor_;
  Local::acceptor local_acceptor_;
};

Listener::Listener(EventLoop& loop, ListenerOptions options, OnEntry on_entry)
    : impl_(std::make_unique<Impl>(loop, std::move(options), std::move(on_entry))) {}

Listener::~Listener() = default;

const Address& Listener::address() const { return impl_->address(); }

void Listener::close() { impl_->close(); }

}  // namespace trireme::net
