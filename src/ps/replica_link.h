#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "cluster/assignment.h"
#include "net/connection.h"
#include "ps/chunk.h"

namespace trireme::ps {

class Shard;

/// Moments at which a server may die: for tests that make it die there.
enum class CrashPoint {
  kUpdated,    ///< primary: the update is made, the replica knows nothing of it
  kForwarded,  ///< primary: it is on its way to the replica
  kReceived,   ///< replica: it has arrived, nothing is done
  kRepeated,   ///< replica: the update is made, the primary does not know
  kConfirmed,  ///< primary: the replica has it, no worker knows
  kAnswered,   ///< primary: the workers' answers are on their way
};
using CrashHook = std::function<void(CrashPoint)>;

struct ReplicaLinkOptions {
  cluster::MemberInfo replica;
  OpenRequest open;  ///< what brings the replica into the view, and tells it the tables
  MemberId from = 0;
  std::string secret;
  net::Transport transport = net::Transport::kAuto;
  std::chrono::milliseconds timeout = 5s;       ///< for each of the replica's answers
  std::chrono::milliseconds silent_after = 4s;  ///< it is lost when its host is silent for so long
  CrashHook on_point;
};

/// What a shard's copy is to start with.
struct ReplicatedShard {
  std::weak_ptr<Shard> shard;
  std::uint32_t number = 0;
  bool in_sync = false;  ///< by the view: nothing may be acknowledged that it has not
};

/// A primary's connection to the replica of some of its shards, in one view: first finds out what the replica has and
/// sends the chunks that differ, then every update, in order; holds the workers' answers until the replica has
/// acknowledged. Thread-safe; chunks call it under their lock, it calls chunks without any of its own.
///
/// One thread connects, sends whole chunks and waits for acknowledgements. Messages go over the network, never through
/// shared memory: a copy on the same host protects little, and is not worth a path of its own.
///
/// If the replica is lost or silent, answers that depend on it are refused with PeerLost, at once and from then on,
/// until the next view: whoever is in sync by the view (or was reported so) may be made primary by the master at any
/// moment. A copy still being built is just given up.
class ReplicaLink {
 public:
  ReplicaLink(net::EventLoop& loop, ReplicaLinkOptions options, std::vector<ReplicatedShard> shards);
  ~ReplicaLink();

  /// Begins; when the chunks know of this replica.
  void start();

  /// An update of a linked chunk, and the answers that wait for it. Leaves with the next `flush`.
  void forward(std::uint32_t shard, ReplicaUpdate update, ChunkState gradient, std::vector<DeferredReply> reply);

  /// A whole chunk, likewise. `initial`: sent by `Chunk::link`, for the shard to become in sync.
  void install(std::uint32_t shard, ChunkHeader header, ChunkState whole, std::vector<DeferredReply> reply,
               bool initial);

  /// An answer that tells of what is there already: goes out when the replica has all of that.
  void defer_reply(std::uint32_t shard, bool linked, DeferredReply reply) TRIREME_EXCLUDES(mutex_);

  /// Sends what has come together: once for all chunks of a request. Never blocks.
  void flush();

  /// The view has ended: refuses whoever waits. The thread ends soon; see `ended`.
  void close(const std::string& reason);
  bool ended() const { return ended_.load(); }

  /// Waits for the thread, after `close`. The last owner must not be somebody whom the thread answers: it would join
  /// itself.
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  /// One for each of its shards.
  std::vector<cluster::ShardReport> reports() const;

 private:
  struct Waiting {
    std::uint32_t shard;
    DeferredReply reply;
  };
  struct Message {
    bool whole = false;  // an InstallRequest, else a ReplicateRequest
    ReplicateRequest replicate;
    InstallRequest install;
    std::vector<ChunkState> payload;
    std::size_t bytes = 0;
    std::vector<Waiting> waiting;
    std::vector<std::uint32_t> initial;  // shards that are nearer to being in sync with it
    std::shared_ptr<net::PendingReply> pending;
  };
  struct State {
    std::uint32_t number = 0;
    bool by_view = false;   // in sync by the view
    bool in_sync = false;   // now
    bool linked = false;    // all its chunks are
    std::size_t owing = 0;  // initial chunks not yet acknowledged
  };

  void run(const std::stop_token& stop);
  SyncReply connect();
  void link_shards(bool by_view, const SyncReply& there, const std::stop_token& stop);
  void acknowledge_front() TRIREME_EXCLUDES(mutex_);
  void give_up(const std::exception& problem, bool host_silent = false) TRIREME_EXCLUDES(mutex_);
  void point(CrashPoint at) const {
    if (options_.on_point) options_.on_point(at);
  }
  State& state(std::uint32_t shard) TRIREME_REQUIRES(mutex_);
  void send_queue() TRIREME_REQUIRES(mutex_);
  void attach(Waiting waiting) TRIREME_REQUIRES(mutex_);  // there is a message on its way
  bool on_its_way() const TRIREME_REQUIRES(mutex_) { return !queue_.empty() || !sent_.empty(); }
  void settle(State& state) const TRIREME_REQUIRES(mutex_);

  net::EventLoop& loop_;
  const ReplicaLinkOptions options_;
  const std::vector<ReplicatedShard> shards_;

  mutable Mutex mutex_;
  StoppableCondition work_;
  std::shared_ptr<net::Connection> connection_ TRIREME_GUARDED_BY(mutex_);
  std::vector<State> states_ TRIREME_GUARDED_BY(mutex_);  // one per shard
  std::deque<Message> queue_ TRIREME_GUARDED_BY(mutex_);  // not sent yet
  std::deque<Message> sent_ TRIREME_GUARDED_BY(mutex_);   // in the order of their answers
  std::size_t sent_bytes_ TRIREME_GUARDED_BY(mutex_) = 0;
  /// Answers of shards in sync by the view, until we know what the replica has.
  std::vector<Waiting> until_known_ TRIREME_GUARDED_BY(mutex_);
  bool known_ TRIREME_GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ TRIREME_GUARDED_BY(mutex_);  // set once: there is no replica any more
  std::string failed_because_ TRIREME_GUARDED_BY(mutex_);
  bool host_silent_ TRIREME_GUARDED_BY(mutex_) = false;  // that is why
  std::atomic<bool> ended_{false};
  std::jthread thread_;
};

}  // namespace trireme::ps
