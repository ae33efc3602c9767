#include "trireme/train/state_feed.h"

#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/collective/stream.h"
#include "trireme/net/loop.h"

namespace trireme {
namespace {

constexpr auto kHelloWithin = 5s;
constexpr std::uint64_t kLeastBacklog = 64 * kMiB;  // a small state is no reason to give up early

Bytes bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

}  // namespace

struct StateFeeds::Message {
  StateHeader header;
  std::unique_ptr<std::byte[]> payload;

  Bytes bytes() const { return {payload.get(), header.bytes}; }
};

/// What one guest is told.
class StateFeeds::Feed {
 public:
  Feed(net::ProvenStream guest, std::uint64_t bits_per_second, const std::shared_ptr<const Message>& state)
      : state_bytes_(state->header.bytes), peer_(guest.peer) {
    waiting_.push_back(state);
    thread_ = std::jthread([this, bits_per_second, taken = std::make_shared<net::ProvenStream>(std::move(guest))](
                               const std::stop_token& stop) { run(stop, std::move(*taken), bits_per_second); });
  }

  ~Feed() {
    thread_.request_stop();
    const std::lock_guard lock(mutex_);
    if (stream_) ::shutdown(stream_->descriptor(), SHUT_RDWR);  // ends a wait for the guest
  }

  void add(std::shared_ptr<const Message> message) {
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      waiting_bytes_ += message->header.bytes;
      ended_ = message->header.kind == StateHeader::Kind::kEnd;
      if (waiting_bytes_ > (ended_ ? state_bytes_ : std::max(kLeastBacklog, state_bytes_))) {
        log_info("a guest cannot keep up with the steps: it gets the rest when it comes in", {{"guest", peer_}});
        waiting_.clear();
        message = std::make_shared<const Message>();
        ended_ = true;
      }
      waiting_.push_back(std::move(message));
    }
    changed_.notify_one();
  }

  /// Whether there is anything more to tell it.
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

  /// Whether all is sent, or the guest is gone.
  bool over() const {
    const std::lock_guard lock(mutex_);
    return over_;
  }

 private:
  void run(const std::stop_token& stop, net::ProvenStream guest, std::uint64_t bits_per_second) {
    net::name_thread("state feed");
    try {
      auto stream = std::make_unique<collective::Stream>(std::move(guest), collective::Stream::Side::kAccepted,
                                                         Deadline::in(kHelloWithin));
      if (bits_per_second > 0) stream->throttle(bits_per_second);
      const std::lock_guard lock(mutex_);
      stream_ = std::move(stream);
    } catch (const std::exception& problem) {
      log_info("a guest did not come in", {{"guest", peer_}, {"reason", problem.what()}});
    }
    try {
      while (stream_ && send_next(stop)) continue;
    } catch (const std::exception& problem) {
      log_info("a guest is gone", {{"guest", peer_}, {"reason", problem.what()}});
    }
    const std::lock_guard lock(mutex_);
    over_ = ended_ = true;
    waiting_.clear();
    stream_.reset();
  }

  /// False if that was the last one.
  bool send_next(const std::stop_token& stop) {
    std::shared_ptr<const Message> message;
    StateHeader header;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) return false;
      message = std::move(waiting_.front());
      waiting_.pop_front();
      header = message->header;
      header.behind = static_cast<std::uint32_t>(waiting_.size());
    }
    send_header(header);
    for (Bytes left = message->bytes(); !left.empty(); left = left.subspan(std::min(left.size(), kStateBlock))) {
      stream_->send_all(left.first(std::min(left.size(), kStateBlock)), Deadline::in(kStateBlockWithin));
    }
    if (header.kind == StateHeader::Kind::kEnd) return false;
    bool all = false;
    {
      const std::lock_guard lock(mutex_);
      if (header.kind == StateHeader::Kind::kChange) waiting_bytes_ -= header.bytes;
      all = waiting_.empty();
    }
    if (all) send_header({.kind = StateHeader::Kind::kAll, .version = header.version, .updates = header.updates});
    return true;
  }

  void send_header(const StateHeader& header) {
    stream_->send_all({reinterpret_cast<const std::byte*>(&header), sizeof(header)}, Deadline::in(kStateBlockWithin));
  }

  const std::uint64_t state_bytes_;
  const std::string peer_;
  mutable std::mutex mutex_;  // guards all below but the thread
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<const Message>> waiting_;
  std::uint64_t waiting_bytes_ = 0;             // of changes
  std::unique_ptr<collective::Stream> stream_;  // only the thread sets and uses it
  bool ended_ = false;                          // nothing is added any more
  bool over_ = false;
  std::jthread thread_;
};

StateFeeds::StateFeeds(collective::Endpoint& endpoint, std::uint64_t bits_per_second)
    : endpoint_(endpoint), bits_per_second_(bits_per_second) {}

StateFeeds::~StateFeeds() = default;

bool StateFeeds::any() const {
  return std::ranges::any_of(feeds_, [](const auto& feed) { return !feed->ended(); });
}

std::shared_ptr<const StateFeeds::Message> StateFeeds::make_message(StateHeader header,
                                                                    const std::vector<Bytes>& parts) {
  for (const Bytes part : parts) header.bytes += part.size();
  auto message = std::make_shared<Message>();
  message->payload = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
  std::byte* to = message->payload.get();
  for (const Bytes part : parts) {
    std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  message->header = header;
  return message;
}

void StateFeeds::add(const StepChange& change, const std::vector<Bytes>& gradients_and_buffers) {
  if (!any()) return;
  const auto message = make_message({.kind = StateHeader::Kind::kChange,
                                     .version = change.after.version,
                                     .updates = change.after.updates,
                                     .lr = change.input.lr,
                                     .gradient_scale = change.input.gradient_scale},
                                    gradients_and_buffers);
  for (const auto& feed : feeds_) feed->add(message);
}

std::size_t StateFeeds::welcome(const Advance& at, const std::function<std::vector<NamedParameter>()>& state) {
  std::erase_if(feeds_, [](const auto& feed) { return feed->over(); });
  std::shared_ptr<const Message> message;
  const std::size_t before = feeds_.size();
  while (auto guest = endpoint_.take_guest()) {
    if (!message) {
      std::vector<torch::Tensor> on_host;  // kept until they are copied
      std::vector<Bytes> parts;
      for (const NamedParameter& piece : state()) {
        on_host.push_back(piece.tensor.detach().to(torch::kCPU).contiguous());
        parts.push_back(bytes_of(on_host.back()));
      }
      message = make_message({.kind = StateHeader::Kind::kState, .version = at.version, .updates = at.updates}, parts);
    }
    log_info("a guest follows", {{"guest", guest->peer}, {"step", at.version}, {"bytes", message->header.bytes}});
    feeds_.push_back(std::make_unique<Feed>(std::move(*guest), bits_per_second_, message));
  }
  return feeds_.size() - before;
}

void StateFeeds::end() {
  for (const auto& feed : feeds_) feed->add(std::make_shared<const Message>());
}

}  // namespace trireme
