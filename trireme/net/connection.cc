#include "trireme/net/connection.h"

#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/net/handshake.h"
#include "trireme/net/shm_channel.h"
#include "trireme/net/tcp_channel.h"
#include "trireme/net/tls.h"

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
  if (!secret.empty()) co_await greet(socket, secret);
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
  co_await greet(stream, secret);
}

awaitable<void> connect_local(Local::socket& socket, const std::string& name, const std::string& secret) {
  co_await socket.async_connect(Local::endpoint(std::string(1, '\0') + name), use_awaitable);
  co_await greet(socket, secret);
}

std::shared_ptr<Channel> open_local(Loop& loop, const Address& address, const ConnectOptions& options,
                                    const std::shared_ptr<FrameReceiver>& receiver) {
  Local::socket socket(asio::make_strand(loop.context()));
  run_until(socket, connect_local(socket, address.unix_name, options.secret), options.deadline, options.peer_name);
  const std::string peer = fmt::format("{} (shm {})", options.peer_name, address.text());
  return ShmChannel::offer(FileDescriptor(socket.release()), receiver,
                           {.peer = peer, .limits = options.limits, .own_bell = std::make_shared<Bell>()},
                           options.deadline);
}

std::shared_ptr<Channel> open_tcp(Loop& loop, const Address& address, const ConnectOptions& options, bool encrypt,
                                  const std::shared_ptr<FrameReceiver>& receiver) {
  const std::string peer = fmt::format("{} ({} {})", options.peer_name, encrypt ? "tls" : "tcp", address.text());
  const TcpChannelOptions channel{
      .peer = peer, .limits = options.limits, .pool = std::make_shared<BufferPool>(), .context = loop.shared_context()};
  tcp::socket socket(asio::make_strand(loop.context()));
  if (!encrypt) {
    run_until(socket, connect_tcp(socket, address, options.secret), options.deadline, peer);
    return make_tcp_channel(std::move(socket), receiver, channel);
  }
  const auto context = make_tls_context(options.secret);
  auto stream = std::make_unique<TlsStream>(std::move(socket), *context);
  run_until(stream->next_layer(), connect_tls(*stream, address, options.secret), options.deadline, peer);
  return make_tls_channel(std::move(stream), receiver, channel);
}

}  // namespace

std::shared_ptr<Connection> Connection::open(Loop& loop, const Address& address, ConnectOptions options) {
  auto pause = 10ms;
  boost::system::error_code refused;
  for (;;) {
    try {
      return try_open(loop, address, options);
    } catch (const boost::system::system_error& problem) {
      if (problem.code() == asio::error::eof || problem.code() == asio::error::connection_reset) {
        fail<PeerLost>("{} at {} closed the connection during the handshake: its log says why", options.peer_name,
                       address.text());
      }
      refused = problem.code();
      const bool not_yet = refused == asio::error::connection_refused;
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

std::shared_ptr<Connection> Connection::try_open(Loop& loop, const Address& address, const ConnectOptions& options) {
  std::shared_ptr<Connection> connection(new Connection(options));
  const bool same_host = !address.unix_name.empty() && address.host_id == this_host_id();
  if (options.transport == Transport::kShm || (options.transport == Transport::kAuto && same_host)) {
    try {
      if (!same_host) fail<InvalidArgument>("{} at {} is on another host", options.peer_name, address.text());
      connection->channel_ = open_local(loop, address, options, connection);
      connection->channel_->start();
      return connection;
    } catch (const boost::system::system_error& problem) {
      if (options.transport == Transport::kShm) throw;
      log_warn("cannot share memory, falling back to TCP",
               {{"peer", options.peer_name}, {"reason", problem.code().message()}});
    }
  }
  const bool encrypt =
      options.transport == Transport::kTls || (options.transport == Transport::kAuto && !is_loopback(address.host));
  connection->channel_ = open_tcp(loop, address, options, encrypt, connection);
  connection->channel_->start();
  return connection;
}

Connection::~Connection() {
  if (channel_) channel_->close("closed by this side");
}

std::string Connection::peer() const { return channel_->peer(); }

std::shared_ptr<PendingReply> Connection::send(Request request) {
  auto pending = std::make_shared<PendingReply>();
  OutFrame frame{.header = {.kind = request.kind, .view = request.view},
                 .body = std::move(request.body),
                 .payload = std::move(request.payload),
                 .hold = nullptr};
  pending->sinks_ = std::move(request.sinks);
  {
    const std::lock_guard lock(mutex_);
    if (closed()) fail<PeerLost>("{} is gone: {}", peer(), closed_because_);
    frame.header.request = pending->request_ = next_request_++;
    pending_.emplace(pending->request_, pending);
  }
  try {
    channel_->send(std::move(frame));
  } catch (const Error&) {  // it does not fit the channel
    const std::lock_guard lock(mutex_);
    pending_.erase(pending->request_);
    throw;
  }
  return pending;
}

InFrame Connection::wait(const std::shared_ptr<PendingReply>& pending, Deadline deadline, const std::string& what) {
  while (!pending->done()) {
    if (deadline.passed()) {
      close();
      if (pending->done() && pending->lost_.empty()) break;
      fail<Timeout>("{} did not answer {} within {:.1f} s: it may be stopped or overloaded; see its log", peer(), what,
                    static_cast<double>(deadline.allowed().count()) / 1000.0);
    }
    channel_->pump(pending->done_, deadline);
  }
  if (!pending->lost_.empty()) fail<PeerLost>("{} was lost during {}: {}", peer(), what, pending->lost_);
  if ((pending->reply_.header.flags & kError) != 0) {
    throw_error(decode_body<ErrorBody>(pending->reply_.body_bytes()));
  }
  return std::move(pending->reply_);
}

void Connection::close() {
  channel_->close("closed by this side");
  while (!closed()) std::this_thread::yield();  // the channel's own thread confirms at once
}

std::shared_ptr<PendingReply> Connection::find(std::uint64_t request) {
  const std::lock_guard lock(mutex_);
  const auto found = pending_.find(request);
  return found == pending_.end() ? nullptr : found->second;
}

std::optional<std::vector<MutableBytes>> Connection::place(const FrameHeader& header) {
  const auto pending = find(header.request);
  if (!pending || pending->sinks_.empty()) return std::nullopt;
  check_size(*pending, header);
  return pending->sinks_;
}

void Connection::check_size(const PendingReply& pending, const FrameHeader& header) const {
  std::uint64_t room = 0;
  for (const MutableBytes sink : pending.sinks_) room += sink.size();
  if (room != header.payload_bytes) {
    fail<Corrupt>("{} answered with {} bytes where {} were asked for", peer(), header.payload_bytes, room);
  }
}

void Connection::on_frame(InFrame frame) {
  const auto pending = find(frame.header.request);
  if (!pending || (frame.header.flags & kReply) == 0) return;
  if ((frame.header.flags & kError) == 0 && !pending->sinks_.empty()) check_size(*pending, frame.header);
  {
    const std::lock_guard lock(mutex_);
    pending_.erase(frame.header.request);
  }
  pending->reply_ = std::move(frame);
  pending->done_.store(true, std::memory_order_release);
}

void Connection::on_close(const std::string& reason) {
  std::map<std::uint64_t, std::shared_ptr<PendingReply>> lost;
  {
    const std::lock_guard lock(mutex_);
    closed_because_ = reason;
    lost.swap(pending_);
    closed_.store(true, std::memory_order_release);
  }
  for (const auto& [request, pending] : lost) {
    pending->lost_ = reason;
    pending->done_.store(true, std::memory_order_release);
  }
}

}  // namespace trireme::net
