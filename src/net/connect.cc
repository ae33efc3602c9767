#include "net/connect.h"

#include <sys/socket.h>

#include <algorithm>
#include <future>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "net/control_socket.h"
#include "net/dead_peer.h"
#include "net/message_codec.h"
#include "net/secure/tls.h"

namespace trireme::net {
namespace {

/// How a coroutine ended, as a value: it goes to another thread, where it is thrown again.
struct Ending {
  boost::system::error_code code;
  ErrorBody error;
};

awaitable<Ending> ending_of(awaitable<void> work) {
  Ending ending;
  try {
    co_await std::move(work);
  } catch (const boost::system::system_error& problem) {
    ending.code = problem.code();
  } catch (const std::exception& problem) {
    ending.error = describe_error(problem);
  }
  co_return ending;
}

/// Throws Timeout when the deadline passes before `finished` is ready, and what the caller's check throws.
void wait_for(const std::future<Ending>& finished, const ConnectOptions& options, const std::string& peer) {
  constexpr Deadline::Clock::duration kCheckEvery = 50ms;
  while (finished.wait_for(std::min(kCheckEvery, options.deadline.left())) != std::future_status::ready) {
    if (options.deadline.passed()) fail<Timeout>("{} did not complete the handshake in time", peer);
    if (options.check) options.check();
  }
}

/// Runs `work` on the socket's loop; if it is not to be waited for any longer, closes `socket` and throws why.
template <typename Socket>
void run_until(Socket& socket, awaitable<void> work, const ConnectOptions& options, const std::string& peer) {
  auto finished = asio::co_spawn(socket.get_executor(), ending_of(std::move(work)), asio::use_future);
  try {
    wait_for(finished, options, peer);
  } catch (...) {
    auto closed = asio::post(socket.get_executor(), asio::use_future([&socket] {
                               boost::system::error_code ignored;
                               socket.close(ignored);
                             }));
    closed.wait();  // both, for the socket may be gone when we return
    finished.wait();
    throw;
  }
  const Ending ending = finished.get();
  if (ending.code) throw boost::system::system_error(ending.code);
  if (!ending.error.type.empty()) throw_error(ending.error);
}

awaitable<void> connect_tcp(tcp::socket& socket, const Address& address, std::chrono::milliseconds silent_after) {
  tcp::resolver resolver(socket.get_executor());
  const auto found = co_await resolver.async_resolve(address.host, std::to_string(address.port), use_awaitable);
  boost::system::error_code problem = asio::error::host_not_found;
  for (const tcp::endpoint endpoint : found) {
    boost::system::error_code ignored;
    socket.close(ignored);
    socket.open(endpoint.protocol());
    if (silent_after.count() > 0) watch_host(socket.native_handle(), silent_after);
    co_await socket.async_connect(endpoint, asio::redirect_error(use_awaitable, problem));
    if (!problem) break;
  }
  if (problem) throw boost::system::system_error(problem);
  socket.set_option(tcp::no_delay(true));
}

/// What is to answer. (A variable of each coroutine: GCC 12 destroys aggregates that are made inside a co_await twice.)
HandshakeScope wanted(Carrier carrier, const Address& address, const ConnectOptions& options) {
  return {.carrier = carrier, .role = options.role, .identity = address.identity};
}

awaitable<void> connect_plain(tcp::socket& socket, const Address& address, const ConnectOptions& options,
                              FrameKeys& keys) {
  const HandshakeScope scope = wanted(Carrier::kTcp, address, options);
  co_await connect_tcp(socket, address, options.silent_after);
  keys = co_await client_handshake(socket, options.secret, scope);
}

awaitable<void> connect_tls(TlsStream& stream, const Address& address, const ConnectOptions& options) {
  HandshakeScope scope = wanted(Carrier::kTls, address, options);
  co_await connect_tcp(stream.next_layer(), address, options.silent_after);
  try {
    co_await stream.async_handshake(asio::ssl::stream_base::client, use_awaitable);
  } catch (const boost::system::system_error& problem) {
    if (problem.code().category() != asio::error::get_ssl_category()) throw;  // it was cut: that proves nothing
    fail<Unauthenticated>(
        "the TLS handshake failed ({}): it has another job's secret, or does not speak TLS; give both "
        "sides the same --secret-file",
        problem.code().message());
  }
  // A stranger could complete the handshake with a certificate instead of the key.
  if (SSL_session_reused(stream.native_handle()) != 1) fail<Unauthenticated>("it did not use the job's secret for TLS");
  scope.channel = tls_channel_binding(stream);
  co_await client_handshake(stream, options.secret, scope);
}

awaitable<void> connect_local(Local::socket& socket, const Address& address, const ConnectOptions& options) {
  const HandshakeScope scope = wanted(Carrier::kUnix, address, options);
  co_await socket.async_connect(Local::endpoint(std::string(1, '\0') + address.unix_name), use_awaitable);
  if (!same_user(socket.native_handle())) throw boost::system::system_error(asio::error::access_denied);
  co_await client_handshake(socket, options.secret, scope);
}

AuthenticatedStream connect_local(EventLoop& loop, const Address& address, const ConnectOptions& options) {
  Local::socket socket(asio::make_strand(loop.context()));
  run_until(socket, connect_local(socket, address, options), options, options.peer_name);
  return {
      .socket = std::move(socket), .peer = fmt::format("{} (shm {})", options.peer_name, address.text()), .keys = {}};
}

/// Of a TCP connection that stands. Who reads a raw one may compute for long before: whoever has it watches it.
void finish(int socket, const ConnectOptions& options) {
  if (options.raw && options.silent_after.count() > 0) stop_watching(socket);
  throttle(socket, options.bits_per_second);
}

AuthenticatedStream connect_tcp(EventLoop& loop, const Address& address, const ConnectOptions& options, bool encrypt) {
  const std::string peer = fmt::format("{} ({} {})", options.peer_name, encrypt ? "tls" : "tcp", address.text());
  tcp::socket socket(asio::make_strand(loop.context()));
  FrameKeys keys;
  if (!encrypt) {
    run_until(socket, connect_plain(socket, address, options, keys), options, peer);
    finish(socket.native_handle(), options);
    return {.socket = std::move(socket), .peer = peer, .keys = keys};
  }
  const auto context = make_tls_context(options.secret);
  auto stream = std::make_unique<TlsStream>(std::move(socket), *context);
  run_until(stream->next_layer(), connect_tls(*stream, address, options), options, peer);
  finish(stream->next_layer().native_handle(), options);
  return {.socket = std::move(stream), .peer = peer, .keys = keys};
}

/// The other side ended the connection before the handshake was complete: it was too busy, or is about to end.
bool is_cut(const boost::system::error_code& problem) {
  return problem == asio::error::eof || problem == asio::error::connection_reset ||
         problem == asio::error::broken_pipe || problem == asio::ssl::error::stream_truncated;
}

/// No packet of the other host arrives.
bool is_silence(const boost::system::error_code& problem) {
  return problem == asio::error::timed_out || problem == asio::error::host_unreachable ||
         problem == asio::error::network_unreachable;
}

/// Unix sockets whose queue is full say this; TCP waits by itself.
bool is_queue_full(const boost::system::error_code& problem) { return problem == asio::error::try_again; }

AuthenticatedStream connect_once(EventLoop& loop, const Address& address, const ConnectOptions& options) {
  const bool same_host = !address.unix_name.empty() && address.host_id == this_host_id();
  const bool share = options.transport == Transport::kAuto && same_host && options.bits_per_second == 0;
  if (options.transport == Transport::kShm || share) {
    try {
      if (!same_host) fail<InvalidArgument>("{} at {} is on another host", options.peer_name, address.text());
      return connect_local(loop, address, options);
    } catch (const boost::system::system_error& problem) {
      if (options.transport == Transport::kShm || is_cut(problem.code()) || is_queue_full(problem.code())) throw;
      log_warn("shared_memory_unavailable", "cannot share memory, falling back to TCP",
               {{"peer", options.peer_name}, {"reason", problem.code().message()}});
    }
  }
  const bool encrypt = options.transport == Transport::kTls ||
                       (options.transport == Transport::kAuto && (options.raw || !is_loopback(address.host)));
  return connect_tcp(loop, address, options, encrypt);
}

}  // namespace

void throttle(int socket, std::uint64_t bits_per_second) {
  if (bits_per_second == 0) return;
  const std::uint64_t bytes = bits_per_second / 8;
  if (::setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, sizeof(bytes)) != 0) {
    fail_errno("cannot slow a connection down");
  }
}

AuthenticatedStream connect(EventLoop& loop, const Address& address, const ConnectOptions& options) {
  auto pause = 10ms;
  boost::system::error_code last;  // why it has not worked so far
  const auto give_up = [&] {
    if (is_cut(last)) {
      fail<PeerLost>("{} at {} closed the connection during the handshake: its log says why", options.peer_name,
                     address.text());
    }
    if (is_silence(last)) {
      fail<HostSilent>("the host of {} at {} does not answer: {}; is the network between the two broken?",
                       options.peer_name, address.text(), last.message());
    }
    fail<PeerLost>("cannot reach {} at {}: {}", options.peer_name, address.text(), last.message());
  };
  for (;;) {
    try {
      return connect_once(loop, address, options);
    } catch (const boost::system::system_error& problem) {
      last = problem.code();
      const bool not_yet = options.await_listener && last == asio::error::connection_refused;
      const bool busy = is_cut(last) || is_queue_full(last);
      if (!(not_yet || busy) || options.deadline.left() < pause) give_up();
    } catch (const Timeout&) {
      if (!last) throw;  // else the time was up in the middle of another attempt
      give_up();
    } catch (const Unauthenticated& problem) {
      fail<Unauthenticated>("{} at {} cannot be trusted: {}", options.peer_name, address.text(), problem.what());
    }
    if (options.check) options.check();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, 200ms);
  }
}

}  // namespace trireme::net
