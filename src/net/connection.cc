#include "net/connection.h"

#include <thread>

#include "base/error.h"
#include "net/connect.h"
#include "net/shm/shm_channel.h"
#include "net/tcp_channel.h"

namespace trireme::net {
namespace {

constexpr auto kLookAtHost = 200ms;  // how often a wait looks whether the other host is silent

std::shared_ptr<Channel> make_channel(AuthenticatedStream proven, const ConnectionOptions& options, EventLoop& loop,
                                      const std::shared_ptr<FrameReceiver>& receiver) {
  if (auto* local = std::get_if<Local::socket>(&proven.socket)) {
    return ShmChannel::offer(
        FileDescriptor(local->release()), receiver,
        {.peer = proven.peer, .limits = options.limits, .own_doorbell = std::make_shared<Doorbell>()},
        options.deadline);
  }
  const TcpChannelOptions channel{.peer = proven.peer,
                                  .limits = options.limits,
                                  .pool = std::make_shared<BufferPool>(),
                                  .context = loop.shared_context(),
                                  .watched = options.silent_after.count() > 0};
  if (auto* plain = std::get_if<tcp::socket>(&proven.socket)) {
    return make_tcp_channel(std::move(*plain), receiver, channel,
                            {.outgoing = proven.keys.to_service, .incoming = proven.keys.to_client});
  }
  return make_tls_channel(std::get<std::unique_ptr<TlsStream>>(std::move(proven.socket)), receiver, channel);
}

}  // namespace

std::shared_ptr<Connection> Connection::open(EventLoop& loop, const Address& address, ConnectionOptions options) {
  AuthenticatedStream proven = connect(loop, address,
                                       {.secret = options.secret,
                                        .transport = options.transport,
                                        .role = options.role,
                                        .peer_name = options.peer_name,
                                        .deadline = options.deadline,
                                        .bits_per_second = options.bits_per_second,
                                        .await_listener = options.await_listener,
                                        .silent_after = options.silent_after});
  auto connection = over([&](const std::shared_ptr<FrameReceiver>& receiver) {
    return make_channel(std::move(proven), options, loop, receiver);
  });
  connection->silent_after_ = options.silent_after;
  return connection;
}

std::shared_ptr<Connection> Connection::over(const MakeChannel& make) {
  std::shared_ptr<Connection> connection(new Connection());
  connection->channel_ = make(connection);
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
    const MutexLock lock(mutex_);
    if (closed()) fail<PeerLost>("{} is gone: {}", peer(), closed_because_);
    frame.header.request = pending->request_ = next_request_++;
    pending_.emplace(pending->request_, pending);
  }
  try {
    channel_->send(std::move(frame));
  } catch (const Error&) {  // it does not fit the channel
    const MutexLock lock(mutex_);
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
    const bool look = silent_after_.count() > 0 && deadline.left() > kLookAtHost;
    channel_->pump(pending->done_, look ? Deadline::in(kLookAtHost) : deadline);
    if (look && !pending->done() && host_silence() > silent_after_) {
      close();
      if (pending->done() && pending->lost_.empty()) break;
      fail<HostSilent>("the host of {} did not answer for {:.1f} s during {}: is the network between the two broken?",
                       peer(), static_cast<double>(silent_after_.count()) / 1000.0, what);
    }
  }
  if (!pending->lost_.empty()) fail<PeerLost>("{} was lost during {}: {}", peer(), what, pending->lost_);
  if ((pending->reply_.header.flags & kError) != 0) {
    throw_error(decode_message<ErrorBody>(pending->reply_.body_bytes()));
  }
  return std::move(pending->reply_);
}

void Connection::close() {
  channel_->close("closed by this side");
  while (!closed()) std::this_thread::yield();  // the channel's own thread confirms at once
}

std::shared_ptr<PendingReply> Connection::find(std::uint64_t request) {
  const MutexLock lock(mutex_);
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
    const MutexLock lock(mutex_);
    pending_.erase(frame.header.request);
  }
  pending->reply_ = std::move(frame);
  pending->done_.store(true, std::memory_order_release);
}

void Connection::on_close(const std::string& reason) {
  std::map<std::uint64_t, std::shared_ptr<PendingReply>> lost;
  {
    const MutexLock lock(mutex_);
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
