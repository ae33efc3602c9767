#include "collective/native/failure_detector.h"

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "trireme/deadline.h"

#include "base/error.h"
#include "base/mutex.h"
#include "net/dead_peer.h"

namespace trireme::collective {
namespace {

namespace asio = net::asio;
using net::awaitable;
using net::use_awaitable;
using Clock = Deadline::Clock;

constexpr auto kBeatEvery = 200ms;
constexpr auto kSilentAfter = 700ms;
constexpr auto kOwnAbsence = 1s;      // between two beats: this process was stopped, or had no CPU time
constexpr auto kNewsWithin = 1s;      // they are on their way; a busy network thread may take a while
constexpr auto kFarewellWithin = 2s;  // it is 24 bytes, and needs only a moment of the network thread
constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

enum class Word : std::uint32_t {
  kAtWork,
  kLeaving,  ///< will do nothing beyond what it has done
  kGone,     ///< gave up: `about` is gone
  kSilent,   ///< gave up: `about` does not answer
};

/// The message sent over the wire.
struct Beat {
  std::uint64_t begun = 0;     ///< collectives
  std::uint64_t finished = 0;  ///< collectives
  Word word = Word::kAtWork;
  Rank about = 0;
};
static_assert(sizeof(Beat) == 24 && std::is_trivially_copyable_v<Beat>);

struct PeerState {
  Clock::time_point last_heard = Clock::now();
  Clock::time_point last_look = Clock::now();
  std::uint64_t begun = 0;
  bool heard = false;  // anything
  bool left = false;
  std::function<void()> wake;   // there is something new to send
  std::function<void()> close;  // without a farewell
};

/// Why the group is broken, and what the others are told.
struct Failure {
  Word word;
  Rank about;
  std::string reason;
};

}  // namespace

struct FailureDetector::State {
  State(Rank own_rank, std::chrono::milliseconds silence, std::function<void(Rank)> tell_silent)
      : self(own_rank), silent_after(silence), on_silent(std::move(tell_silent)) {}

  const Rank self;
  const std::chrono::milliseconds silent_after;  // 0 = never
  const std::function<void(Rank)> on_silent;
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> finished{0};
  std::atomic<std::uint64_t> possible{kAll};  // the last collective for which no rank is missing
  std::atomic<bool> broken{false};
  mutable Mutex mutex;
  Condition all_closed;
  std::map<Rank, PeerState> peers TRIREME_GUARDED_BY(mutex);
  std::optional<Failure> failure TRIREME_GUARDED_BY(mutex);
  bool closed TRIREME_GUARDED_BY(mutex) = false;   // by this side
  std::size_t open TRIREME_GUARDED_BY(mutex) = 0;  // connections on which we still send

  void break_up(Word word, Rank about, const std::string& reason) {
    const MutexLock lock(mutex);
    if (failure || closed) return;
    failure = {word, about, reason};
    possible.store(0, std::memory_order_release);
    broken.store(true, std::memory_order_release);
    for (const auto& [rank, peer] : peers) peer.wake();
  }

  Beat beat() const {
    const MutexLock lock(mutex);
    const Word word = failure ? failure->word : closed ? Word::kLeaving : Word::kAtWork;
    return {begun.load(), finished.load(), word, failure ? failure->about : self};
  }

  void heard(Rank rank, const Beat& beat) {
    {
      const MutexLock lock(mutex);
      PeerState& peer = peers.at(rank);
      peer.last_heard = Clock::now();
      peer.heard = true;
      peer.begun = beat.begun;
      if (beat.word == Word::kLeaving) {
        peer.left = true;
        possible.store(std::min(possible.load(), beat.finished), std::memory_order_release);
      }
    }
    if (beat.word != Word::kGone && beat.word != Word::kSilent) return;
    const std::string what = beat.word == Word::kGone ? "has lost" : "has no answer from";
    const std::string whom =
        beat.about == self ? fmt::format("this rank, {},", self) : fmt::format("rank {}", beat.about);
    break_up(beat.word, beat.about, fmt::format("rank {} {} {} and gave up", rank, what, whom));
  }

  void ended(Rank rank, const std::string& peer, const std::string& reason) {
    if (!has_left(rank)) break_up(Word::kGone, rank, fmt::format("{} is gone: {}", peer, reason));
  }

  /// Gives up on `rank` if it was silent for too long; called every `kBeatEvery`. Time in which this process did not
  /// run itself does not count: what came meanwhile is not read yet. A rank that has not spoken yet may still be
  /// connecting to others, and wait for one of them that is silent: as long as its own host answers (`host_silent` is
  /// how long it has not), it is given that time, too.
  void look_at(Rank rank, std::chrono::milliseconds host_silent) {
    std::chrono::milliseconds quiet{0};
    {
      const MutexLock lock(mutex);
      const auto now = Clock::now();
      PeerState& peer = peers.at(rank);
      const auto since_look = now - std::exchange(peer.last_look, now);
      if (since_look > kOwnAbsence) peer.last_heard = std::min(now, peer.last_heard + since_look);
      quiet = std::chrono::duration_cast<std::chrono::milliseconds>(now - peer.last_heard);
      const auto allowed = peer.heard || host_silent > silent_after ? silent_after : 2 * silent_after;
      if (silent_after.count() == 0 || quiet <= allowed || failure || closed || peer.left) return;
    }
    if (on_silent) on_silent(rank);
    break_up(
        Word::kSilent, rank,
        fmt::format("rank {} was not heard of for {:.1f} s: it is stopped, or the network between it and this rank, "
                    "{}, drops everything",
                    rank, seconds(quiet), self));
  }

  bool has_left(Rank rank) const {
    const MutexLock lock(mutex);
    return peers.at(rank).left;
  }

  bool is_closed() const {
    const MutexLock lock(mutex);
    return closed;
  }

  void spoke_last() {
    const MutexLock lock(mutex);
    if (--open == 0) all_closed.notify_all();
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

std::chrono::milliseconds host_silence(net::tcp::socket& socket) { return net::silence_of(socket.native_handle()); }
std::chrono::milliseconds host_silence(net::Local::socket& /*socket*/) { return {}; }  // it is this one

/// A connection. Its reading and its writing coroutine share it, on the socket's strand.
template <typename Owned>
struct Line {
  explicit Line(Owned socket) : owned(std::move(socket)), timer(layer_of(owned).get_executor()) {}

  void close() {
    boost::system::error_code ignored;
    layer_of(owned).close(ignored);
    timer.cancel();
  }

  Owned owned;
  asio::steady_timer timer;
};

template <typename State, typename Owned>
awaitable<void> listen(std::shared_ptr<State> state, std::shared_ptr<Line<Owned>> line, Rank rank, std::string peer) {
  std::string reason;
  try {
    for (;;) {
      Beat beat;
      co_await asio::async_read(stream_of(line->owned), asio::buffer(&beat, sizeof(beat)), use_awaitable);
      state->heard(rank, beat);
    }
  } catch (const boost::system::system_error& problem) {
    reason = problem.code() == asio::error::eof || problem.code() == asio::error::connection_reset
                 ? "its connection ended: the process has died"
                 : problem.code().message();
  }
  state->ended(rank, peer, reason);
  line->close();
}

template <typename State, typename Owned>
awaitable<void> speak(std::shared_ptr<State> state, std::shared_ptr<Line<Owned>> line, Rank rank) {
  try {
    for (bool last = false; !last;) {
      state->look_at(rank, host_silence(layer_of(line->owned)));
      last = state->is_closed();  // checked before the beat is made, so that the last one says so
      const Beat beat = state->beat();
      co_await asio::async_write(stream_of(line->owned), asio::buffer(&beat, sizeof(beat)), use_awaitable);
      if (last || state->is_closed() || state->beat().word != beat.word) continue;
      line->timer.expires_after(kBeatEvery);
      boost::system::error_code woken;
      co_await line->timer.async_wait(asio::redirect_error(use_awaitable, woken));
    }
  } catch (const boost::system::system_error&) {
    // The reading side sees the end as well, and reports it.
  }
  line->close();
  state->spoke_last();
}

}  // namespace

FailureDetector::FailureDetector(Rank self, std::vector<Peer> peers, std::chrono::milliseconds silent_after,
                                 std::function<void(Rank rank)> on_silent)
    : state_(std::make_shared<State>(self, silent_after, std::move(on_silent))) {
  const auto begin = [this](Rank rank, const std::string& peer, auto socket) TRIREME_REQUIRES(state_->mutex) {
    using Owned = decltype(socket);
    const auto line = std::make_shared<Line<Owned>>(std::move(socket));
    const auto executor = line->timer.get_executor();
    state_->peers[rank].wake = [line, executor] { asio::post(executor, [line] { line->timer.cancel(); }); };
    state_->peers[rank].close = [line, executor] { asio::post(executor, [line] { line->close(); }); };
    ++state_->open;
    asio::co_spawn(executor, listen(state_, line, rank, peer), asio::detached);
    asio::co_spawn(executor, speak(state_, line, rank), asio::detached);
  };
  const MutexLock lock(state_->mutex);
  for (Peer& peer : peers) {
    std::visit([&](auto& socket)
                   TRIREME_REQUIRES(state_->mutex) { begin(peer.rank, peer.stream.peer, std::move(socket)); },
               peer.stream.socket);
  }
}

FailureDetector::~FailureDetector() {
  const MutexLock lock(state_->mutex);
  state_->closed = true;
  for (const auto& [rank, peer] : state_->peers) peer.wake();
  state_->all_closed.wait(state_->mutex, Deadline::in(kFarewellWithin),
                          [this]() TRIREME_REQUIRES(state_->mutex) { return state_->open == 0; });
  for (auto& [rank, peer] : state_->peers) {
    peer.close();
    peer.wake = peer.close = [] {};  // they hold the connection, whose coroutines hold the state
  }
}

void FailureDetector::set_begun(std::uint64_t collectives) {
  state_->begun.store(collectives, std::memory_order_relaxed);
}

void FailureDetector::set_finished(std::uint64_t collectives) {
  state_->finished.store(collectives, std::memory_order_relaxed);
}

bool FailureDetector::broken() const { return state_->broken.load(std::memory_order_acquire); }

bool FailureDetector::broken(std::uint64_t collective) const {
  return collective > state_->possible.load(std::memory_order_acquire);
}

bool FailureDetector::left(Rank rank) const { return state_->has_left(rank); }

void FailureDetector::throw_broken(const std::string& context) const {
  const MutexLock lock(state_->mutex);
  if (!state_->failure) {
    for (const auto& [rank, peer] : state_->peers) {
      if (peer.left) fail<PeerLost>("{} could not be finished: rank {} has left the group", context, rank);
    }
    fail<PeerLost>("{} could not be finished: a connection ended", context);
  }
  const auto& [word, about, reason] = *state_->failure;
  if (word == Word::kSilent) fail<Timeout>("{} could not be finished: {}", context, reason);
  fail<PeerLost>("{} could not be finished: {}", context, reason);
}

void FailureDetector::abort(const std::string& reason) { state_->break_up(Word::kLeaving, state_->self, reason); }

bool FailureDetector::wait_broken() const {
  const Deadline deadline = Deadline::in(kNewsWithin);
  while (!broken(kAll) && !deadline.passed()) std::this_thread::sleep_for(1ms);
  return broken(kAll);
}

std::vector<Rank> FailureDetector::behind() const {
  std::vector<Rank> ranks;
  const MutexLock lock(state_->mutex);
  for (const auto& [rank, peer] : state_->peers) {
    if (Clock::now() - peer.last_heard > kSilentAfter || peer.begun < state_->begun.load()) ranks.push_back(rank);
  }
  return ranks;
}

std::string FailureDetector::give_up(std::uint64_t collective) {
  std::string silent;
  std::string behind;
  std::optional<Rank> culprit;  // of several that are silent, the one that was first: others may be late, not stopped
  Clock::duration longest = kSilentAfter;
  {
    const MutexLock lock(state_->mutex);
    for (const auto& [rank, peer] : state_->peers) {
      const auto quiet = Clock::now() - peer.last_heard;
      if (quiet > kSilentAfter) {
        if (quiet > longest) {
          culprit = rank;
          longest = quiet;
        }
        silent += fmt::format("{}rank {} (silent for {:.1f} s: stopped, or cut off)", silent.empty() ? "" : ", ", rank,
                              seconds(quiet));
      } else if (peer.begun < collective) {
        if (!culprit) culprit = rank;
        behind += fmt::format("{}rank {} (alive, but {} calls behind)", behind.empty() ? "" : ", ", rank,
                              collective - peer.begun);
      }
    }
  }
  if (culprit) state_->break_up(Word::kSilent, *culprit, fmt::format("this rank gave up on rank {}", *culprit));
  if (!silent.empty()) return silent;
  if (!behind.empty()) return behind;
  return collective == 0 ? "all ranks are alive" : "no rank in particular: all are alive and in the same call";
}

}  // namespace trireme::collective
