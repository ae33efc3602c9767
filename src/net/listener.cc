#include "net/listener.h"

#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "net/control_socket.h"
#include "net/secure/handshake.h"
#include "net/secure/refusal_log.h"
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

constexpr int kBacklog = 4096;    // as much as kernels allow by default: who finds no place waits there
constexpr auto kLookAgain = 2ms;  // while all places are taken

/// Who is behind an address, as far as one can tell: the owner of an IPv6 network has more addresses than can be
/// counted.
std::string owner_of(const asio::ip::address& address) {
  if (!address.is_v6() || address.to_v6().is_v4_mapped()) return address.to_string();
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes).to_string();
}

}  // namespace

class Listener::Impl {
 public:
  Impl(EventLoop& loop, ListenerOptions options, OnEntry on_entry)
      : options_(std::move(options)),
        on_entry_(std::move(on_entry)),
        tls_(make_tls_context(options_.secret)),
        strangers_(std::make_shared<Admission>(options_.unproven)),
        own_user_(std::make_shared<Admission>(options_.unproven)),
        loop_(loop),
        refusals_(loop.context()),
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
    address_ = {.host = options_.host,
                .port = options_.port,
                .host_id = this_host_id(),
                .unix_name = {},
                .identity = random_hex(sizeof(Label) / 2)};
    try {
      const auto found = tcp::resolver(loop_.context()).resolve(options_.host, std::to_string(options_.port));
      const tcp::endpoint endpoint = found.begin()->endpoint();
      tcp_acceptor_.open(endpoint.protocol());
      tcp_acceptor_.set_option(tcp::acceptor::reuse_address(true));
      tcp_acceptor_.bind(endpoint);
      tcp_acceptor_.listen(kBacklog);
    } catch (const boost::system::system_error& problem) {
      fail<IoError>("{} cannot listen on {}: {}; name another port, or 0 for any free one", options_.name,
                    address_.text(), problem.code().message());
    }
    address_.port = tcp_acceptor_.local_endpoint().port();
    if (!options_.advertise.empty()) address_.host = options_.advertise;
    asio::co_spawn(tcp_acceptor_.get_executor(), accept<tcp::socket>(tcp_acceptor_, *strangers_), asio::detached);
  }

  void listen_local() {
    address_.unix_name = fmt::format("trireme-{}-{}", ::getpid(), random_hex(8));
    local_acceptor_.open();
    local_acceptor_.bind(Local::endpoint(std::string(1, '\0') + address_.unix_name));
    local_acceptor_.listen(kBacklog);
    asio::co_spawn(local_acceptor_.get_executor(), accept<Local::socket>(local_acceptor_, *own_user_), asio::detached);
  }

  template <typename Acceptor>
  static void close_acceptor(Acceptor& acceptor) {
    asio::post(acceptor.get_executor(), [&acceptor] {
      boost::system::error_code ignored;
      acceptor.close(ignored);
    });
  }

  /// Accepts connections as long as there are places in `usual`; until then, they wait in the kernel's queue.
  template <typename Socket, typename Acceptor>
  awaitable<void> accept(Acceptor& acceptor, Admission& usual) {
    asio::steady_timer pause(acceptor.get_executor());
    for (;;) {
      boost::system::error_code problem;
      Socket socket(asio::make_strand(loop_.context()));
      co_await acceptor.async_wait(Acceptor::wait_read, asio::redirect_error(use_awaitable, problem));
      while (acceptor.is_open() && !usual.make_room()) {
        pause.expires_after(kLookAgain);
        co_await pause.async_wait(use_awaitable);
      }
      if (!acceptor.is_open()) co_return;
      co_await acceptor.async_accept(socket, asio::redirect_error(use_awaitable, problem));
      if (!acceptor.is_open()) co_return;
      if (problem) {  // such as no file descriptors left: breathe, then go on
        pause.expires_after(50ms);
        co_await pause.async_wait(use_awaitable);
        continue;
      }
      const std::string peer = name_of(socket);
      if (peer.empty()) continue;  // it is gone already
      auto place = place_for(socket);
      if (!place) {
        refusals_.add(peer, "too many connections of other users are in their handshake");
        continue;
      }
      const auto executor = socket.get_executor();
      asio::co_spawn(executor, accept(std::move(socket), peer, std::move(place)), asio::detached);
    }
  }

  template <typename Socket>
  awaitable<void> accept(Socket socket, std::string peer, std::unique_ptr<Admission::Place> place) {
    try {
      AuthenticatedStream stream = co_await prove(std::move(socket), peer, *place);
      co_await on_entry_(std::move(stream));
    } catch (const std::exception& problem) {
      refusals_.add(peer, place->evicted() ? "it was idle, and others wanted to connect" : describe_refusal(problem));
    }
  }

  std::unique_ptr<Admission::Place> place_for(const tcp::socket& socket) {
    boost::system::error_code gone;
    return std::make_unique<Admission::Place>(strangers_, owner_of(socket.remote_endpoint(gone).address()));
  }

  /// Local peers of this user do not compete with strangers.
  std::unique_ptr<Admission::Place> place_for(Local::socket& socket) {
    if (same_user(socket.native_handle())) return std::make_unique<Admission::Place>(own_user_, "this user");
    if (!strangers_->make_room()) return nullptr;
    return std::make_unique<Admission::Place>(strangers_, "other users");
  }

  HandshakeScope scope(Carrier carrier) const {
    return {.carrier = carrier, .role = options_.role, .identity = address_.identity};
  }

  /// From here on it does not have to make way for others; if it had to before, it must not be told that it may stay.
  static void admit(Admission::Place& place) {
    if (!place.release()) throw boost::system::system_error(asio::error::operation_aborted);
  }

  std::string name_of(const Local::socket& /*socket*/) const { return fmt::format("shm {}", options_.name); }

  static std::string name_of(const tcp::socket& socket) {
    boost::system::error_code no_peer;
    const auto remote = socket.remote_endpoint(no_peer);
    return no_peer ? "" : fmt::format("tcp {}:{}", remote.address().to_string(), remote.port());
  }

  awaitable<AuthenticatedStream> prove(Local::socket socket, std::string& peer, Admission::Place& place) {
    const HandshakeWatch watch(socket, options_.handshake_within);
    place.on_eviction(watch.closer());
    const HandshakeScope own = scope(Carrier::kUnix);
    const std::function<void()> on_proven = [&place] { admit(place); };
    co_await server_handshake(socket, options_.secret, own, on_proven);
    co_return AuthenticatedStream{.socket = std::move(socket), .peer = peer, .keys = {}};
  }

  awaitable<AuthenticatedStream> prove(tcp::socket socket, std::string& peer, Admission::Place& place) {
    const bool loopback = is_loopback(socket.remote_endpoint().address().to_string());
    socket.set_option(tcp::no_delay(true));
    throttle(socket.native_handle(), options_.bits_per_second);
    auto stream = std::make_unique<TlsStream>(std::move(socket), *tls_);
    HandshakeWatch watch(stream->next_layer(), options_.handshake_within);
    place.on_eviction(watch.closer());
    const std::function<void()> on_proven = [&place] { admit(place); };
    std::byte first{};
    co_await stream->next_layer().async_receive(asio::buffer(&first, 1), tcp::socket::message_peek, use_awaitable);
    HandshakeScope own = scope(first == kTlsHandshakeByte ? Carrier::kTls : Carrier::kTcp);
    if (own.carrier == Carrier::kTls) {
      peer = "tls " + peer.substr(4);
      co_await stream->async_handshake(asio::ssl::stream_base::server, use_awaitable);
      place.progressed();
      own.channel = tls_channel_binding(*stream);
      co_await server_handshake(*stream, options_.secret, own, on_proven);
      watch.call_off();
      co_return AuthenticatedStream{.socket = std::move(stream), .peer = peer, .keys = {}};
    }
    if (!loopback && !options_.allow_plain) co_await refuse_plain(stream->next_layer());
    const FrameKeys keys = co_await server_handshake(stream->next_layer(), options_.secret, own, on_proven);
    watch.call_off();
    co_return AuthenticatedStream{.socket = std::move(stream->next_layer()), .peer = peer, .keys = keys};
  }

  ListenerOptions options_;
  OnEntry on_entry_;
  std::shared_ptr<asio::ssl::context> tls_;
  const std::shared_ptr<Admission> strangers_;
  const std::shared_ptr<Admission> own_user_;
  EventLoop& loop_;
  RefusalLog refusals_;
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
