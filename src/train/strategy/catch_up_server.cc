#include "train/strategy/catch_up_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "net/event_loop.h"
#include "net/raw_stream.h"
#include "tensor/device/host_memory.h"

namespace trireme {
namespace {

constexpr auto kHelloWithin = 5s;
constexpr std::uint64_t kLeastBacklog = 64 * kMiB;  // a small state is no reason to give up early

}  // namespace

struct CatchUpServer::Message {
  CatchUpHeader header;
  std::unique_ptr<std::byte[]> payload;

  Bytes bytes() const { return {payload.get(), header.bytes}; }
};

/// What one learner is told.
class CatchUpServer::Feed {
 public:
  Feed(net::AuthenticatedStream learner, std::uint64_t bits_per_second, const std::shared_ptr<const Message>& state)
      : state_bytes_(state->header.bytes), peer_(learner.peer) {
    waiting_.push_back(state);
    thread_ =
        std::jthread([this, bits_per_second, taken = std::make_shared<net::AuthenticatedStream>(std::move(learner))](
                         const std::stop_token& stop) { run(stop, std::move(*taken), bits_per_second); });
  }

  ~Feed() {
    thread_.request_stop();
    const MutexLock lock(mutex_);
    if (stream_) ::shutdown(stream_->descriptor(), SHUT_RDWR);  // ends a wait for the learner
  }

  void add(std::shared_ptr<const Message> message) {
    {
      const MutexLock lock(mutex_);
      if (ended_) return;
      waiting_bytes_ += message->header.bytes;
      ended_ = message->header.kind == CatchUpHeader::Kind::kEnd;
      if (waiting_bytes_ > (ended_ ? state_bytes_ : std::max(kLeastBacklog, state_bytes_))) {
        log_info("learner_too_slow", "a learner cannot keep up with the steps: it gets the rest when it enters a view",
                 {{"learner", peer_}});
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
    const MutexLock lock(mutex_);
    return ended_;
  }

  /// Whether all is sent, or the learner is gone.
  bool over() const {
    const MutexLock lock(mutex_);
    return over_;
  }

 private:
  void run(const std::stop_token& stop, net::AuthenticatedStream learner, std::uint64_t bits_per_second) {
    net::name_thread("state feed");
    try {
      auto stream = std::make_unique<net::RawStream>(std::move(learner), net::RawStream::Side::kAccepted,
                                                     Deadline::in(kHelloWithin));
      if (bits_per_second > 0) stream->throttle(bits_per_second);
      const MutexLock lock(mutex_);
      stream_ = std::move(stream);
    } catch (const std::exception& problem) {
      log_info("learner_not_connected", "a learner could not connect",
               {{"learner", peer_}, {"reason", problem.what()}});
    }
    try {
      while (stream_ && send_next(stop)) continue;
    } catch (const std::exception& problem) {
      log_info("learner_lost", "lost a learner", {{"learner", peer_}, {"reason", problem.what()}});
    }
    const MutexLock lock(mutex_);
    over_ = ended_ = true;
    waiting_.clear();
    stream_.reset();
  }

  /// False if that was the last one.
  bool send_next(const std::stop_token& stop) {
    std::shared_ptr<const Message> message;
    CatchUpHeader header;
    {
      const MutexLock lock(mutex_);
      if (!changed_.wait(mutex_, stop, [&]() TRIREME_REQUIRES(mutex_) { return !waiting_.empty(); })) return false;
      message = std::move(waiting_.front());
      waiting_.pop_front();
      header = message->header;
      header.behind = static_cast<std::uint32_t>(waiting_.size());
    }
    send_header(header);
    for (Bytes left = message->bytes(); !left.empty(); left = left.subspan(std::min(left.size(), kStateBlock))) {
      stream_->send_all(left.first(std::min(left.size(), kStateBlock)), Deadline::in(kStateBlockWithin));
    }
    if (header.kind == CatchUpHeader::Kind::kEnd) return false;
    bool all = false;
    {
      const MutexLock lock(mutex_);
      if (header.kind == CatchUpHeader::Kind::kChange) waiting_bytes_ -= header.bytes;
      all = waiting_.empty();
    }
    if (all) send_header({.kind = CatchUpHeader::Kind::kAll, .version = header.version, .updates = header.updates});
    return true;
  }

  void send_header(const CatchUpHeader& header) {
    stream_->send_all({reinterpret_cast<const std::byte*>(&header), sizeof(header)}, Deadline::in(kStateBlockWithin));
  }

  const std::uint64_t state_bytes_;
  const std::string peer_;
  mutable Mutex mutex_;
  StoppableCondition changed_;
  std::deque<std::shared_ptr<const Message>> waiting_ TRIREME_GUARDED_BY(mutex_);
  std::uint64_t waiting_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;  // of changes
  std::unique_ptr<net::RawStream> stream_;  // only the thread uses it, and sets it with mutex_, for the destructor
  bool ended_ TRIREME_GUARDED_BY(mutex_) = false;  // nothing is added any more
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

CatchUpServer::CatchUpServer(collective::Endpoint& endpoint, std::uint64_t bits_per_second)
    : endpoint_(endpoint), bits_per_second_(bits_per_second) {}

CatchUpServer::~CatchUpServer() = default;

bool CatchUpServer::any() const {
  return std::ranges::any_of(feeds_, [](const auto& feed) { return !feed->ended(); });
}

std::shared_ptr<const CatchUpServer::Message> CatchUpServer::make_message(CatchUpHeader header,
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

void CatchUpServer::add(const StepChange& change, const std::vector<Bytes>& gradients_and_buffers) {
  if (!any()) return;
  const auto message = make_message({.kind = CatchUpHeader::Kind::kChange,
                                     .version = change.after.version,
                                     .updates = change.after.updates,
                                     .lr = change.input.lr,
                                     .gradient_scale = change.input.gradient_scale,
                                     .left_out = change.left_out ? 1u : 0u},
                                    gradients_and_buffers);
  for (const auto& feed : feeds_) feed->add(message);
}

std::size_t CatchUpServer::accept(const Position& at, const std::function<std::vector<NamedParameter>()>& state) {
  std::erase_if(feeds_, [](const auto& feed) { return feed->over(); });
  std::shared_ptr<const Message> message;
  const std::size_t before = feeds_.size();
  while (auto learner = endpoint_.accept_learner()) {
    if (!message) {
      std::vector<torch::Tensor> held;  // until they are copied
      std::vector<Bytes> parts;
      for (const NamedParameter& piece : state()) {
        parts.push_back(bytes_of(held.emplace_back(on_host(piece.tensor))));
      }
      message =
          make_message({.kind = CatchUpHeader::Kind::kState, .version = at.version, .updates = at.updates}, parts);
    }
    log_info("learner_accepted", "a learner catches up",
             {{"learner", learner->peer}, {"step", at.version}, {"bytes", message->header.bytes}});
    feeds_.push_back(std::make_unique<Feed>(std::move(*learner), bits_per_second_, message));
  }
  return feeds_.size() - before;
}

void CatchUpServer::end() {
  for (const auto& feed : feeds_) feed->add(std::make_shared<const Message>());
}

}  // namespace trireme
