#include "collective/native/endpoint.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "net/listener.h"
#include "net/message_codec.h"
#include "net/secure/handshake.h"

namespace trireme::collective {
namespace {

using net::AuthenticatedStream;
using net::awaitable;
using net::Local;
using net::TlsStream;
using net::use_awaitable;
using net::asio::ip::tcp;
namespace asio = net::asio;

// The connecting side names the connection, the other replies with one byte:
//
//   from -> to   u32 size, the LinkName as MessagePack        to -> from   u8 verdict
//
// Nothing else is sent before the verdict is received.

constexpr std::uint32_t kMaxName = 4096;
constexpr std::size_t kMaxWaiting = 4096;  // connections that no communicator has asked for yet
constexpr auto kNameWithin = 5s;
constexpr Deadline::Clock::duration kCheckEvery = 50ms;

enum class Verdict : std::uint8_t { kTaken = 0, kStaleView = 1 };

struct WireName {
  View view = 0;
  std::string group;
  Rank from = 0;
  Rank to = 0;
  std::uint8_t purpose = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WireName, view, group, from, to, purpose)
};

std::string encode(const LinkName& name) {
  const std::string body =
      net::encode_message(WireName{name.view, name.group, name.from, name.to, static_cast<std::uint8_t>(name.purpose)});
  std::string message(sizeof(std::uint32_t), '\0');
  store_le(std::as_writable_bytes(std::span(message)), static_cast<std::uint32_t>(body.size()));
  return message + body;
}

LinkName decode(Bytes body) {
  auto wire = net::decode_message<WireName>(body);
  if (wire.purpose > static_cast<std::uint8_t>(Purpose::kLearner)) {
    fail<Corrupt>("a rank asks for a connection of unknown purpose {}", wire.purpose);
  }
  return {wire.view, std::move(wire.group), wire.from, wire.to, static_cast<Purpose>(wire.purpose)};
}

/// Calls `use` with the underlying stream, whatever its type.
template <typename Use>
auto with_stream(AuthenticatedStream& proven, Use use) {
  if (auto* local = std::get_if<Local::socket>(&proven.socket)) return use(*local, *local);
  if (auto* plain = std::get_if<tcp::socket>(&proven.socket)) return use(*plain, *plain);
  TlsStream& tls = *std::get<std::unique_ptr<TlsStream>>(proven.socket);
  return use(tls, tls.next_layer());
}

template <typename Stream>
awaitable<LinkName> read_name(Stream& stream) {
  std::uint32_t size = 0;
  co_await asio::async_read(stream, asio::buffer(&size, sizeof(size)), use_awaitable);
  if (size > kMaxName) fail<Corrupt>("a rank sent a name of {} bytes for its connection", size);
  std::string body(size, '\0');
  co_await asio::async_read(stream, asio::buffer(body), use_awaitable);
  co_return decode(as_bytes(body));
}

template <typename Stream>
awaitable<void> write_verdict(Stream& stream, Verdict verdict) {
  co_await asio::async_write(stream, asio::buffer(&verdict, 1), use_awaitable);
}

template <typename Stream>
awaitable<Verdict> introduce(Stream& stream, std::string message) {
  co_await asio::async_write(stream, asio::buffer(message), use_awaitable);
  Verdict verdict{};
  co_await asio::async_read(stream, asio::buffer(&verdict, 1), use_awaitable);
  co_return verdict;
}

}  // namespace

class Endpoint::Impl {
 public:
  explicit Impl(EndpointOptions options)
      : options_(std::move(options)),
        loop_("collective", 1),
        listener_(loop_,
                  {.name = "collective endpoint",
                   .host = options_.host,
                   .advertise = options_.advertise,
                   .port = options_.port,
                   .secret = options_.secret,
                   .role = "rank",
                   .allow_plain = options_.allow_plain},
                  [this](AuthenticatedStream stream) { return on_entry(std::move(stream)); }) {}

  ~Impl() {
    listener_.close();
    loop_.stop();
  }

  awaitable<void> on_entry(AuthenticatedStream proven) {
    // Two coroutines by type of stream would be no clearer than one visit for each of the two messages.
    std::optional<LinkName> name;
    {
      awaitable<LinkName> reading = with_stream(proven, [](auto& stream, auto&) { return read_name(stream); });
      const auto watch = with_stream(proven, [](auto&, auto& socket) {
        return std::shared_ptr<void>(std::make_shared<net::HandshakeWatch<std::remove_reference_t<decltype(socket)>>>(
            socket, std::chrono::milliseconds(kNameWithin)));
      });
      name = co_await std::move(reading);
    }
    const Verdict verdict = judge(*name);
    co_await with_stream(proven, [verdict](auto& stream, auto&) { return write_verdict(stream, verdict); });
    if (verdict != Verdict::kTaken) {
      log_warn("rank_refused", "refused a rank's connection",
               {{"from", name->from}, {"view", name->view}, {"group", name->group}, {"peer", proven.peer}});
      co_return;
    }
    {
      const MutexLock lock(mutex_);
      if (name->view < view_ || waiting_.size() >= kMaxWaiting) co_return;
      waiting_.insert_or_assign(*name, std::move(proven));
    }
    arrived_.notify_all();
  }

  Verdict judge(const LinkName& name) const {
    const MutexLock lock(mutex_);
    return name.view < view_ ? Verdict::kStaleView : Verdict::kTaken;
  }

  AuthenticatedStream accept(const LinkName& name, Deadline deadline) {
    const MutexLock lock(mutex_);
    const bool here = arrived_.wait(
        mutex_, deadline, [&]() TRIREME_REQUIRES(mutex_) { return waiting_.contains(name) || name.view < view_; });
    if (name.view < view_) throw_stale(name);
    if (!here) {
      fail<Timeout>("rank {} did not connect to rank {} within {:.1f} s (view {}, group '{}'): did it start?",
                    name.from, name.to, static_cast<double>(deadline.allowed().count()) / 1000.0, name.view,
                    name.group);
    }
    AuthenticatedStream stream = std::move(waiting_.at(name));
    waiting_.erase(name);
    return stream;
  }

  /// Throws StaleView if a later view was entered.
  void check_current(const LinkName& name) const {
    const MutexLock lock(mutex_);
    if (name.view < view_) throw_stale(name);
  }

  std::optional<AuthenticatedStream> accept_learner() {
    const MutexLock lock(mutex_);
    const auto learner =
        std::ranges::find(waiting_, Purpose::kLearner, [](const auto& entry) { return entry.first.purpose; });
    if (learner == waiting_.end()) return std::nullopt;
    AuthenticatedStream stream = std::move(learner->second);
    waiting_.erase(learner);
    return stream;
  }

  void enter_view(View view) {
    {
      const MutexLock lock(mutex_);
      view_ = std::max(view_, view);
      std::erase_if(waiting_, [now = view_](const auto& entry) { return entry.first.view < now; });
    }
    arrived_.notify_all();
  }

  void note_unreachable(const net::Address& peer) {
    const MutexLock lock(mutex_);
    unreachable_.push_back(peer);
  }

  std::vector<net::Address> take_unreachable() {
    const MutexLock lock(mutex_);
    return std::exchange(unreachable_, {});
  }

  [[noreturn]] static void throw_stale(const LinkName& name) {
    fail<StaleView>("view {} ended while its ranks still connected", name.view);
  }

  EndpointOptions options_;
  mutable Mutex mutex_;
  std::vector<net::Address> unreachable_ TRIREME_GUARDED_BY(mutex_);
  Condition arrived_;
  View view_ TRIREME_GUARDED_BY(mutex_) = 0;
  net::EventLoop loop_;
  /// Declared after the loop, which its sockets must not outlive.
  std::map<LinkName, AuthenticatedStream> waiting_ TRIREME_GUARDED_BY(mutex_);
  net::Listener listener_;  // last: accepts connections from the moment it exists
};

Endpoint::Endpoint(EndpointOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Endpoint::~Endpoint() = default;

const net::Address& Endpoint::address() const { return impl_->listener_.address(); }

const std::string& Endpoint::secret() const { return impl_->options_.secret; }

net::EventLoop& Endpoint::loop() { return impl_->loop_; }

AuthenticatedStream Endpoint::connect(const net::Address& peer, const LinkName& name, net::Transport transport,
                                      Deadline deadline, std::chrono::milliseconds silent_after) {
  const auto check = [&] { impl_->check_current(name); };
  AuthenticatedStream proven = net::connect(loop(), peer,
                                            {.secret = secret(),
                                             .transport = transport,
                                             .role = "rank",
                                             .peer_name = fmt::format("rank {}", name.to),
                                             .deadline = deadline,
                                             .raw = true,
                                             .await_listener = impl_->options_.await_peers,
                                             .silent_after = silent_after,
                                             .check = check});
  auto verdict = with_stream(proven, [&](auto& stream, auto& socket) {
    return asio::co_spawn(socket.get_executor(), introduce(stream, encode(name)), asio::use_future);
  });
  try {
    while (verdict.wait_for(std::min(kCheckEvery, deadline.left())) != std::future_status::ready) {
      if (deadline.passed()) fail<Timeout>("{} accepted a connection but did not answer in time", proven.peer);
      check();
    }
  } catch (const Error&) {
    with_stream(proven, [](auto&, auto& socket) {
      asio::post(socket.get_executor(), asio::use_future([&socket] {
                   boost::system::error_code ignored;
                   socket.close(ignored);
                 }))
          .wait();
      return 0;
    });
    verdict.wait();
    throw;
  }
  try {
    if (verdict.get() == Verdict::kTaken) return proven;
  } catch (const boost::system::system_error& problem) {
    fail<PeerLost>("{} closed the connection while it was set up: {}", proven.peer, problem.code().message());
  }
  fail<StaleView>("{} has gone on to a later view than {}: ask the master for the current one", proven.peer, name.view);
}

AuthenticatedStream Endpoint::accept(const LinkName& name, Deadline deadline) { return impl_->accept(name, deadline); }

std::optional<AuthenticatedStream> Endpoint::accept_learner() { return impl_->accept_learner(); }

void Endpoint::enter_view(View view) { impl_->enter_view(view); }

void Endpoint::note_unreachable(const net::Address& peer) { impl_->note_unreachable(peer); }

std::vector<net::Address> Endpoint::take_unreachable() { return impl_->take_unreachable(); }

}  // namespace trireme::collective
