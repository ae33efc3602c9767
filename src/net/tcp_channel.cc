#include "net/tcp_channel.h"

#include <deque>
#include <optional>

#include <openssl/crypto.h>

#include "base/error.h"
#include "base/mutex.h"
#include "net/dead_peer.h"

namespace trireme::net {
namespace {

tcp::socket& socket_of(tcp::socket& stream) { return stream; }
tcp::socket& socket_of(std::unique_ptr<TlsStream>& stream) { return stream->next_layer(); }
tcp::socket& stream_of(tcp::socket& stream) { return stream; }
TlsStream& stream_of(std::unique_ptr<TlsStream>& stream) { return *stream; }

/// Lets asio move up to a megabyte per system call. Its own limit of 64 KiB costs a fifth of the speed of a stream.
std::size_t in_large_steps(const boost::system::error_code& problem, std::size_t /*done*/) {
  return problem ? 0 : std::size_t{1} << 20;
}

/// Reads and writes are two coroutines on one strand. The write side gathers header, body and payload of all frames
/// that are queued into one operation.
template <typename Owned>
class StreamChannel final : public Channel, public std::enable_shared_from_this<StreamChannel<Owned>> {
 public:
  StreamChannel(Owned stream, std::weak_ptr<FrameReceiver> receiver, TcpChannelOptions options,
                const std::optional<ChannelKeys>& keys)
      : options_(std::move(options)), stream_(std::move(stream)), receiver_(std::move(receiver)) {
    end_if_host_is_silent(socket_of(stream_).native_handle(), /*peer_reads=*/true, options_.watched);
    if (!keys) return;
    outgoing_mac_.emplace(keys->outgoing);
    incoming_mac_.emplace(keys->incoming);
  }

  void start() override { asio::co_spawn(executor(), read_loop(this->shared_from_this()), asio::detached); }

  void send(OutFrame frame) override {
    frame.header.body_bytes = static_cast<std::uint32_t>(frame.body.size());
    frame.header.payload_bytes = 0;
    for (const Bytes part : frame.payload) frame.header.payload_bytes += part.size();
    {
      const MutexLock lock(mutex_);
      if (closed_) return;
      queue_.push_back(std::move(frame));
      if (writing_) return;
      writing_ = true;
    }
    asio::co_spawn(executor(), write_loop(this->shared_from_this()), asio::detached);
  }

  void close(const std::string& reason) override {
    asio::post(executor(), [self = this->shared_from_this(), reason] { self->shut_down(reason); });
  }

  std::string peer() const override { return options_.peer; }

  std::chrono::milliseconds host_silence() override {
    const MutexLock lock(mutex_);  // it is not closed meanwhile
    return closed_ || !options_.watched ? 0ms : silence_of(socket_of(stream_).native_handle());
  }

  void pump(const std::atomic<bool>& done, Deadline deadline) override {
    const MutexLock lock(mutex_);
    delivered_.wait(mutex_, deadline,
                    [&]() TRIREME_REQUIRES(mutex_) { return done.load(std::memory_order_acquire) || closed_; });
  }

 private:
  auto executor() { return socket_of(stream_).get_executor(); }

  awaitable<void> read_loop([[maybe_unused]] std::shared_ptr<StreamChannel> self) {
    std::string reason;
    try {
      for (;;) {
        std::array<std::byte, kHeaderBytes> header_bytes;
        co_await asio::async_read(stream_of(stream_), asio::buffer(header_bytes), use_awaitable);
        InFrame frame{.header = decode_header(header_bytes, options_.limits), .body = {}, .payload = {}};
        co_await read_rest(header_bytes, frame);
        const auto receiver = receiver_.lock();
        if (!receiver) break;
        receiver->on_frame(std::move(frame));
        notify();
      }
      reason = "its owner is gone";
    } catch (const boost::system::system_error& problem) {
      reason = problem.code() == asio::error::eof ? "the peer closed the connection" : problem.code().message();
    } catch (const std::exception& problem) {
      reason = problem.what();
    }
    shut_down(reason);
  }

  /// Reads body, payload and tag, in one operation: what follows a header has usually arrived with it.
  awaitable<void> read_rest(Bytes header, InFrame& frame) {
    frame.body.resize(frame.header.body_bytes);
    std::vector<MutableBytes> parts{std::as_writable_bytes(std::span(frame.body))};
    if (frame.header.payload_bytes > 0) place_payload(frame, parts);
    FrameTag tag{};
    std::vector<asio::mutable_buffer> buffers;
    for (const MutableBytes part : parts) {
      if (!part.empty()) buffers.push_back(as_buffer(part));
    }
    if (incoming_mac_) buffers.push_back(asio::buffer(tag));
    if (!buffers.empty()) co_await asio::async_read(stream_of(stream_), buffers, in_large_steps, use_awaitable);
    if (!incoming_mac_) co_return;
    std::vector<Bytes> all{header};
    all.insert(all.end(), parts.begin(), parts.end());
    if (CRYPTO_memcmp(incoming_mac_->next(all).data(), tag.data(), tag.size()) != 0) {
      fail<Corrupt>("a frame was changed, or added, on its way: its tag does not match");
    }
  }

  void place_payload(InFrame& frame, std::vector<MutableBytes>& parts) {
    const auto receiver = receiver_.lock();
    if (!receiver) fail<PeerLost>("its owner is gone");
    if (const auto placed = receiver->place(frame.header)) {
      parts.insert(parts.end(), placed->begin(), placed->end());
    } else {
      frame.payload = options_.pool->take(frame.header.payload_bytes);
      parts.push_back(frame.payload_bytes());
    }
  }

  awaitable<void> write_loop([[maybe_unused]] std::shared_ptr<StreamChannel> self) {
    try {
      std::vector<OutFrame> batch;
      while (take_batch(batch)) {
        std::vector<std::array<std::byte, kHeaderBytes>> headers;
        std::vector<FrameTag> tags;
        std::vector<asio::const_buffer> buffers;
        headers.reserve(batch.size());
        tags.reserve(batch.size());
        for (const OutFrame& frame : batch) {
          std::vector<Bytes> parts{headers.emplace_back(encode_header(frame.header)), as_bytes(frame.body)};
          parts.insert(parts.end(), frame.payload.begin(), frame.payload.end());
          for (const Bytes part : parts) {
            if (!part.empty()) buffers.push_back(as_buffer(part));
          }
          if (outgoing_mac_) buffers.push_back(asio::buffer(tags.emplace_back(outgoing_mac_->next(parts))));
        }
        co_await asio::async_write(stream_of(stream_), buffers, in_large_steps, use_awaitable);
      }
    } catch (const boost::system::system_error& problem) {
      shut_down(problem.code().message());
    } catch (const std::exception& problem) {
      shut_down(problem.what());
    }
  }

  /// Moves the queued frames to `batch`; false when there are none, and the write loop ends.
  bool take_batch(std::vector<OutFrame>& batch) {
    batch.clear();
    const MutexLock lock(mutex_);
    while (!queue_.empty() && batch.size() < 16) {
      batch.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    writing_ = !batch.empty();
    return writing_;
  }

  void shut_down(const std::string& reason) {
    {
      const MutexLock lock(mutex_);
      if (closed_) return;
      closed_ = true;
      queue_.clear();
    }
    boost::system::error_code ignored;
    socket_of(stream_).shutdown(tcp::socket::shutdown_both, ignored);
    socket_of(stream_).close(ignored);
    if (const auto receiver = receiver_.lock()) receiver->on_close(reason);
    notify();
  }

  void notify() {
    { const MutexLock lock(mutex_); }  // a waiter is either before its check or asleep
    delivered_.notify_all();
  }

  TcpChannelOptions options_;  // before the stream: its context goes last
  Owned stream_;
  std::weak_ptr<FrameReceiver> receiver_;
  std::optional<FrameMac> outgoing_mac_;  // the write loop's; none over TLS, which does the same
  std::optional<FrameMac> incoming_mac_;  // the read loop's

  Mutex mutex_;
  Condition delivered_;
  std::deque<OutFrame> queue_ TRIREME_GUARDED_BY(mutex_);
  bool writing_ TRIREME_GUARDED_BY(mutex_) = false;
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<Channel> make_tcp_channel(tcp::socket socket, std::weak_ptr<FrameReceiver> receiver,
                                          TcpChannelOptions options, const ChannelKeys& keys) {
  return std::make_shared<StreamChannel<tcp::socket>>(std::move(socket), std::move(receiver), std::move(options), keys);
}

std::shared_ptr<Channel> make_tls_channel(std::unique_ptr<TlsStream> stream, std::weak_ptr<FrameReceiver> receiver,
                                          TcpChannelOptions options) {
  return std::make_shared<StreamChannel<std::unique_ptr<TlsStream>>>(std::move(stream), std::move(receiver),
                                                                     std::move(options), std::nullopt);
}

}  // namespace trireme::net
