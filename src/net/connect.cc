#include "net/connect.h"

#include <sys/socket.h>

#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "net/message_codec.h"
#include "net/secure/handshake.h"
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

/// Runs `work` on the socket's loop; when the deadline passes first, closes `socket` and throws Timeout.
template <typename Socket>
void run_until(Socket& socket, awaitable<void> work, Deadline deadline, const std::string& peer) {
  auto finished = asio::co_spawn(socket.get_executor(), ending_of(std::move(work)), asio::use_future);
  if (finished.wait_until(deadline.at()) != std::future_status::ready) {
    auto closed = asio::post(socket.get_executor(), asio::use_future([&socket] {
                               boost::system::error_code ignored;
                               socket.close(ignored);
                             }));
    closed.wait();  // both, for the socket may be gone when we return
    finished.wait();
    fail<Timeout>("{} did not complete the handshake in time", peer);
  }
  const Ending ending = finished.get();
  if (ending.code) throw boost::system::system_error(ending.code);
  if (!ending.error.type.empty()) throw_error(ending.error);
}

awaitable<void> connect_tcp(tcp::socket& socket, const Address& address, const std::string& secret) {
  tcp::resolver resolver(socket.get_executor());
  const auto found = co_await resolver.async_resolve(address.host, std::to_string(address.port), use_awaitable);
  co_await asio::async_connect(socket, found, use_awaitable);
  socket.set_option(tcp::no_delay(true));
  if (!secret.empty()) co_await client_handshake(socket, secret);
}

awaitable<void> connect_tls(TlsStream& stream, const Address& address, const std::string& secret) {
  co_await connect_tcp(stream.next_layer(), address, "");
  try {
    co_await stream.async_handshake(asio::ssl::stream_base::client, use_awaitable);
  } catch (const boost::system::system_error& problem) {
    if (problem.code() == asio::error::operation_aborted) throw;
    fail<Unauthenticated>(
        "the TLS handshake failed ({}): it has another job's secret, or does not speak TLS; give both "
        "sides the same --secret-file",
        problem.code().message());
  }
  // A stranger could complete the handshake with a certificate instead of the key.
  if (SSL_session_reused(stream.native_handle()) != 1) fail<Unauthenticated>("it did not use the job's secret for TLS");
  co_await client_handshake(stream, secret);
}

awaitable<void> connect_local(Local::socket& socket, const std::string& name, const std::string& secret) {
  co_await socket.async_connect(Local::endpoint(std::string(1, '\0') + name), use_awaitable);
  co_await client_handshake(socket, secret);
}

AuthenticatedStream connect_local(EventLoop& loop, const Address& address, const ConnectOptions& options) {
  Local::socket socket(asio::make_strand(loop.context()));
  run_until(socket, connect_local(socket, address.unix_name, options.secret), options.deadline, options.peer_name);
  return {std::move(socket), fmt::format("{} (shm {})", options.peer_name, address.text())};
}

AuthenticatedStream connect_tcp(EventLoop& loop, const Address& address, const ConnectOptions& options, bool encrypt) {
  const std::string peer = fmt::format("{} ({} {})", options.peer_name, encrypt ? "tls" : "tcp", address.text());
  tcp::socket socket(asio::make_strand(loop.context()));
  if (!encrypt) {
    run_until(socket, connect_tcp(socket, address, options.secret), options.deadline, peer);
    throttle(socket.native_handle(), options.bits_per_second);
    return {std::move(socket), peer};
  }
  const auto context = make_tls_context(options.secret);
  auto stream = std::make_unique<TlsStream>(std::move(socket), *context);
  run_until(stream->next_layer(), connect_tls(*stream, address, options.secret), options.deadline, peer);
  throttle(stream->next_layer().native_handle(), options.bits_per_second);
  return {std::move(stream), peer};
}

AuthenticatedStream connect_once(EventLoop& loop, const Address& address, const ConnectOptions& options) {
  const bool same_host = !address.unix_name.empty() && address.host_id == this_host_id();
  const bool share = options.transport == Transport::kAuto && same_host && options.bits_per_second == 0;
  if (options.transport == Transport::kShm || share) {
    try {
      if (!same_host) fail<InvalidArgument>("{} at {} is on another host", options.peer_name, address.text());
      return connect_local(loop, address, options);
    } catch (const boost::system::system_error& problem) {
      if (options.transport == Transport::kShm) throw;
      log_warn("shared_memory_unavailable", "cannot share memory, falling back to TCP",
               {{"peer", options.peer_name}, {"reason", problem.code().message()}});
    }
  }
  const bool encrypt =
      options.transport == Transport::kTls || (options.transport == Transport::kAuto && !is_loopback(address.host));
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
  boost::system::error_code refused;
  for (;;) {
    try {
      return connect_once(loop, address, options);
    } catch (const boost::system::system_error& problem) {
      if (problem.code() == asio::error::eof || problem.code() == asio::error::connection_reset) {
        fail<PeerLost>("{} at {} closed the connection during the handshake: its log says why", options.peer_name,
                       address.text());
      }
      refused = problem.code();
      const bool not_yet = options.await_listener && refused == asio::error::connection_refused;
      if (!not_yet || options.deadline.left() < pause) {
        fail<PeerLost>("cannot reach {} at {}: {}", options.peer_name, address.text(), refused.message());
      }
    } catch (const Timeout&) {
      if (!refused) throw;  // else the time was up in the middle of another attempt
      fail<PeerLost>("cannot reach {} at {}: {}", options.peer_name, address.text(), refused.message());
    } catch (const Unauthenticated& problem) {
      fail<Unauthenticated>("{} at {} cannot be trusted: {}", options.peer_name, address.text(), problem.what());
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, 200ms);
  }
}

}  // namespace trireme::net
