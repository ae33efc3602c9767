#include "trireme/collective/watch.h"

#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "trireme/base/deadline.h"
#include "trireme/base/error.h"

namespace trireme::collective {
namespace {

namespace asio = net::asio;
using net::awaitable;
using net::use_awaitable;
using Clock = Deadline::Clock;

constexpr auto kBeatEvery = 200ms;
constexpr auto kSilentAfter = 700ms;

struct PeerState {
  Clock::time_point last_heard = Clock::now();
  std::uint64_t operations = 0;
  std::function<void()> close;
};

}  // namespace

struct Watch::State {
  std::atomic<std::uint64_t> operations{0};
  std::atomic<bool> broken{false};
  mutable std::mutex mutex;
  std::map<Rank, PeerState> peers;  // guarded by mutex
  std::string reason;               // why it is broken; guarded by mutex
  bool closed = false;              // by this side; guarded by mutex

  void break_up(const std::string& why) {
    const std::lock_guard lock(mutex);
    if (broken.load() || closed) return;
    reason = why;
    broken.store(true, std::memory_order_release);
  }

  void heard(Rank rank, std::uint64_t their_operations) {
    const std::lock_guard lock(mutex);
    PeerState& peer = peers.at(rank);
    peer.last_heard = Clock::now();
    peer.operations = their_operations;
  }
};

namespace {

template <typename Owned>
auto& stream_of(Owned& owned) {
  if constexpr (requires { owned->next_layer(); }) {
    return *owned;
  } else {
    return owned;
  }
}

template <typename Owned>
auto& layer_of(Owned& owned) {
  if constexpr (requires { owned->next_layer(); }) {
    return owned->next_layer();
  } else {
    return owned;
  }
}

/// Reads and writes are two coroutines on the socket's strand, which share the socket and the state.
template <typename State, typename Owned>
awaitable<void> listen(std::shared_ptr<State> state, std::shared_ptr<Owned> owned, Rank rank, std::string peer) {
  std::string reason;
  try {
    for (;;) {
      std::uint64_t operations = 0;
      co_await asio::async_read(stream_of(*owned), asio::buffer(&operations, sizeof(operations)), use_awaitable);
      state->heard(rank, operations);
    }
  } catch (const boost::system::system_error& problem) {
    reason = problem.code() == asio::error::eof || problem.code() == asio::error::connection_reset
                 ? "its connection ended: the process has died or left"
                 : problem.code().message();
  }
  state->break_up(fmt::format("rank {} is gone ({}): {}", rank, peer, reason));
  boost::system::error_code ignored;
  layer_of(*owned).close(ignored);
}

template <typename State, typename Owned>
awaitable<void> beat(std::shared_ptr<State> state, std::shared_ptr<Owned> owned) {
  try {
    asio::steady_timer timer(layer_of(*owned).get_executor());
    while (layer_of(*owned).is_open()) {
      const std::uint64_t operations = state->operations.load(std::memory_order_relaxed);
      co_await asio::async_write(stream_of(*owned), asio::buffer(&operations, sizeof(operations)), use_awaitable);
      timer.expires_after(kBeatEvery);
      co_await timer.async_wait(use_awaitable);
    }
  } catch (const boost::system::system_error&) {
    // The reading side sees the end as well, and tells.
  }
}

}  // namespace

Watch::Watch(net::Loop& /*loop*/, std::vector<Peer> peers) : state_(std::make_shared<State>()) {
  const auto begin = [this](Rank rank, const std::string& peer, auto socket) {
    using Owned = decltype(socket);
    const auto owned = std::make_shared<Owned>(std::move(socket));
    const auto executor = layer_of(*owned).get_executor();
    state_->peers[rank].close = [owned, executor] {
      asio::post(executor, [owned] {
        boost::system::error_code ignored;
        layer_of(*owned).close(ignored);
      });
    };
    asio::co_spawn(executor, listen(state_, owned, rank, peer), asio::detached);
    asio::co_spawn(executor, beat(state_, owned), asio::detached);
  };
  const std::lock_guard lock(state_->mutex);
  for (Peer& peer : peers) {
    std::visit([&](auto& socket) { begin(peer.rank, peer.stream.peer, std::move(socket)); }, peer.stream.socket);
  }
}

Watch::~Watch() {
  const std::lock_guard lock(state_->mutex);
  state_->closed = true;
  for (const auto& [rank, peer] : state_->peers) peer.close();
}

void Watch::set_operations(std::uint64_t operations) {
  state_->operations.store(operations, std::memory_order_relaxed);
}

bool Watch::broken() const { return state_->broken.load(std::memory_order_acquire); }

void Watch::throw_broken(const std::string& doing) const {
  const std::lock_guard lock(state_->mutex);
  fail<PeerLost>("{} could not be finished: {}", doing, state_->reason);
}

void Watch::abort(const std::string& reason) { state_->break_up(reason); }

bool Watch::wait_broken(std::chrono::milliseconds moment) const {
  const Deadline deadline = Deadline::in(moment);
  while (!broken() && !deadline.passed()) std::this_thread::sleep_for(1ms);
  return broken();
}

std::string Watch::suspects(std::uint64_t operations) const {
  const std::lock_guard lock(state_->mutex);
  std::string silent;
  std::string behind;
  for (const auto& [rank, peer] : state_->peers) {
    const auto quiet = Clock::now() - peer.last_heard;
    if (quiet > kSilentAfter) {
      silent += fmt::format("{}rank {} (silent for {:.1f} s: stopped, or cut off)", silent.empty() ? "" : ", ", rank,
                            seconds(quiet));
    } else if (peer.operations < operations) {
      behind += fmt::format("{}rank {} (alive, but {} calls behind)", behind.empty() ? "" : ", ", rank,
                            operations - peer.operations);
    }
  }
  if (!silent.empty()) return silent;
  return behind.empty() ? "no rank in particular: all are alive and in the same call" : behind;
}

}  // namespace trireme::collective
