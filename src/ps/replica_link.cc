#include "ps/replica_link.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "ps/shard.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kMessageBytes = 8u << 20;  // updates that travel together, at most
constexpr std::size_t kBuildWindow = 16u << 20;  // of a copy being built: updates of other chunks go in between

void refuse(const DeferredReply& reply, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& problem) {
    reply.waiter->chunk_refused(problem);
  }
}

}  // namespace

ReplicaLink::ReplicaLink(net::EventLoop& loop, ReplicaLinkOptions options, std::vector<ReplicatedShard> shards)
    : loop_(loop), options_(std::move(options)), shards_(std::move(shards)) {
  for (const ReplicatedShard& shard : shards_) {
    states_.push_back({.number = shard.number, .by_view = shard.in_sync, .in_sync = shard.in_sync});
  }
}

ReplicaLink::~ReplicaLink() { close("this server ends"); }

void ReplicaLink::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    net::name_thread("replica");
    run(stop);
    ended_.store(true);
  });
}

void ReplicaLink::run(const std::stop_token& stop) try {
  const SyncReply there = connect();
  link_shards(/*by_view=*/true, there, stop);
  {
    std::vector<Waiting> answers;
    {
      const MutexLock lock(mutex_);
      known_ = true;
      answers.swap(until_known_);
      if (on_its_way()) {
        for (Waiting& waiting : answers) attach(std::move(waiting));
        answers.clear();
      }
    }
    for (const Waiting& waiting : answers) waiting.reply.waiter->chunk_done(waiting.reply.outcome);
  }
  link_shards(/*by_view=*/false, there, stop);
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex_);
      if (!work_.wait(mutex_, stop, [&]() TRIREME_REQUIRES(mutex_) { return !sent_.empty(); })) return;
    }
    acknowledge_front();
  }
} catch (const StaleView& problem) {
  give_up(problem);
} catch (const std::exception& problem) {
  give_up(PeerLost(fmt::format("the replica, server {} ({}), is lost: {}; the next view will have another one",
                               options_.replica.slot, options_.replica.address.text(), problem.what())),
          /*host_silent=*/dynamic_cast<const net::HostSilent*>(&problem) != nullptr);
}

/// Brings the replica into our view and asks what it has.
SyncReply ReplicaLink::connect() {
  auto connection =
      net::Connection::open(loop_, options_.replica.address,
                            {.secret = options_.secret,
                             .transport = net::network_transport(options_.transport, options_.replica.address),
                             .role = "server",
                             .peer_name = fmt::format("replica server {}", options_.replica.slot),
                             .deadline = Deadline::in(options_.timeout),
                             .await_listener = false,
                             .silent_after = options_.silent_after});
  {
    const MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    connection_ = connection;
  }
  const View view = options_.open.view.view;
  OpenRequest open = options_.open;
  open.server = options_.replica.id;
  connection->call<OpenReply>(kOpen, view, open, Deadline::in(options_.timeout), "the opening of its copies");
  auto there = connection->call<SyncReply>(kSync, view, SyncRequest{options_.from}, Deadline::in(options_.timeout),
                                           "what it has");
  if (there.chunks.size() != there.histories.size()) fail<Corrupt>("it answered nonsense about what it has");
  return there;
}

/// Compares and sends the chunks of the shards that are (or are not) in sync by the view.
void ReplicaLink::link_shards(bool by_view, const SyncReply& there, const std::stop_token& stop) {
  std::map<std::uint32_t, std::uint64_t> histories;
  for (std::size_t i = 0; i < there.chunks.size(); ++i) histories[there.chunks[i]] = there.histories[i];
  for (const ReplicatedShard& each : shards_) {
    if (each.in_sync != by_view) continue;
    const auto shard = each.shard.lock();
    if (!shard) continue;  // the view has ended
    for (std::size_t i = 0; i < shard->size() && !stop.stop_requested(); ++i) {
      Chunk& chunk = shard->chunk(i);
      const auto found = histories.find(chunk.index());
      if (found == histories.end()) fail<Corrupt>("it knows nothing of chunk {}", chunk.index());
      chunk.link(this, found->second);
      flush();
      for (;;) {  // let the acknowledgements keep up
        {
          const MutexLock lock(mutex_);
          if (sent_.empty()) break;
          const auto& pending = sent_.front().pending;  // null: it could not be sent
          if (pending && !pending->done() && sent_bytes_ < kBuildWindow) break;
        }
        acknowledge_front();
      }
    }
    const MutexLock lock(mutex_);
    State& state = this->state(each.number);
    state.linked = true;
    settle(state);
  }
}

void ReplicaLink::settle(State& state) const {
  if (state.in_sync || !state.linked || state.owing > 0) return;
  state.in_sync = true;
  log_info("replica_in_sync", "a replica is in sync", {{"shard", state.number}, {"replica", options_.replica.slot}});
}

ReplicaLink::State& ReplicaLink::state(std::uint32_t shard) {
  const auto found = std::ranges::find(states_, shard, &State::number);
  TRIREME_CHECK(found != states_.end(), "shard {}", shard);
  return *found;
}

void ReplicaLink::forward(std::uint32_t shard, ReplicaUpdate update, ChunkState gradient,
                          std::vector<DeferredReply> reply) {
  point(CrashPoint::kUpdated);
  MutexLock lock(mutex_);
  if (failure_) {
    lock.unlock();
    for (DeferredReply& each : reply) defer_reply(shard, /*linked=*/true, std::move(each));
    return;
  }
  const bool room = !queue_.empty() && !queue_.back().whole && queue_.back().bytes + gradient.bytes <= kMessageBytes;
  if (!room) queue_.push_back({.whole = false, .replicate = {.from = options_.from}});
  Message& message = queue_.back();
  message.replicate.updates.push_back(update);
  message.bytes += gradient.bytes;
  if (gradient.bytes > 0) message.payload.push_back(std::move(gradient));
  for (DeferredReply& each : reply) message.waiting.push_back({shard, std::move(each)});
}

void ReplicaLink::install(std::uint32_t shard, ChunkHeader header, ChunkState whole, std::vector<DeferredReply> reply,
                          bool initial) {
  MutexLock lock(mutex_);
  if (failure_) {
    lock.unlock();
    for (DeferredReply& each : reply) defer_reply(shard, /*linked=*/true, std::move(each));
    return;
  }
  Message message{.whole = true, .install = {.from = options_.from, .header = std::move(header)}};
  message.bytes = whole.bytes;
  message.payload.push_back(std::move(whole));
  for (DeferredReply& each : reply) message.waiting.push_back({shard, std::move(each)});
  if (initial) {
    message.initial.push_back(shard);
    ++state(shard).owing;
  }
  queue_.push_back(std::move(message));
}

void ReplicaLink::defer_reply(std::uint32_t shard, bool linked, DeferredReply reply) {
  {
    const MutexLock lock(mutex_);
    const State& state = this->state(shard);
    const bool needed = state.by_view || state.in_sync;  // the master may rely on this copy
    if (failure_) {
      if (needed) return refuse(reply, failure_);
    } else if (!linked || !known_) {
      if (needed) return until_known_.push_back({shard, std::move(reply)});
    } else if (on_its_way()) {
      return attach({shard, std::move(reply)});
    }
  }
  reply.waiter->chunk_done(reply.outcome);
}

void ReplicaLink::attach(Waiting waiting) {
  Message& last = queue_.empty() ? sent_.back() : queue_.back();
  last.waiting.push_back(std::move(waiting));
}

void ReplicaLink::flush() {
  bool sent = false;
  {
    const MutexLock lock(mutex_);
    sent = !queue_.empty();
    send_queue();
  }
  if (!sent) return;
  work_.notify_all();
  point(CrashPoint::kForwarded);
}

void ReplicaLink::send_queue() try {
  while (!queue_.empty() && !failure_) {
    Message& message = queue_.front();
    net::Connection::Request request{.kind = message.whole ? kInstall : kReplicate, .view = options_.open.view.view};
    request.body = message.whole ? net::encode_message(message.install) : net::encode_message(message.replicate);
    for (const ChunkState& part : message.payload) request.payload.push_back({part.memory.get(), part.bytes});
    message.pending = connection_->send(std::move(request));
    sent_bytes_ += message.bytes;
    sent_.push_back(std::move(message));
    queue_.pop_front();
  }
} catch (const Error& problem) {  // the connection is gone: the thread finds out by itself if it waits for an answer
  log_warn("replica_unreachable", "cannot reach a replica",
           {{"replica", options_.replica.slot}, {"reason", problem.what()}});
  connection_->channel().close(problem.what());
  if (sent_.empty() && !queue_.empty()) {
    sent_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
}

void ReplicaLink::acknowledge_front() {
  std::shared_ptr<net::PendingReply> pending;
  std::shared_ptr<net::Connection> connection;
  {
    const MutexLock lock(mutex_);
    if (sent_.empty()) return;
    pending = sent_.front().pending;
    connection = connection_;
  }
  if (!pending) fail<PeerLost>("the connection to it has ended");
  connection->wait(pending, Deadline::in(options_.timeout), "an update");
  Message message;
  {
    const MutexLock lock(mutex_);
    if (failure_) return;  // closed meanwhile: everybody was refused
    message = std::move(sent_.front());
    sent_.pop_front();
    sent_bytes_ -= message.bytes;
    for (const std::uint32_t shard : message.initial) {
      State& state = this->state(shard);
      --state.owing;
      settle(state);
    }
  }
  point(CrashPoint::kConfirmed);
  for (const Waiting& waiting : message.waiting) waiting.reply.waiter->chunk_done(waiting.reply.outcome);
  if (!message.waiting.empty()) point(CrashPoint::kAnswered);
}

void ReplicaLink::give_up(const std::exception& problem, bool host_silent) {
  std::vector<Waiting> refused;
  std::vector<Waiting> released;
  std::deque<Message> messages;  // their memory may still be read until the connection is closed
  std::deque<Message> unsent;
  std::shared_ptr<net::Connection> connection;
  std::exception_ptr failure;
  const bool stale = dynamic_cast<const StaleView*>(&problem) != nullptr;
  {
    const MutexLock lock(mutex_);
    if (failure_) return;
    failed_because_ = problem.what();
    host_silent_ = host_silent;
    failure_ = stale ? std::make_exception_ptr(StaleView(failed_because_))
                     : std::make_exception_ptr(PeerLost(failed_because_));
    failure = failure_;
    messages.swap(sent_);
    unsent.swap(queue_);
    refused.swap(until_known_);
    for (std::deque<Message>* list : {&messages, &unsent}) {
      for (Message& message : *list) {
        for (Waiting& waiting : message.waiting) {
          const State& state = this->state(waiting.shard);
          (stale || state.by_view || state.in_sync ? refused : released).push_back(std::move(waiting));
        }
      }
    }
    connection = connection_;
  }
  if (connection) connection->close();
  for (const Waiting& waiting : refused) refuse(waiting.reply, failure);
  for (const Waiting& waiting : released) waiting.reply.waiter->chunk_done(waiting.reply.outcome);
  if (!stale)
    log_warn("replica_dropped", "a replica gets no more updates",
             {{"replica", options_.replica.slot}, {"reason", problem.what()}});
}

void ReplicaLink::close(const std::string& reason) {
  thread_.request_stop();
  give_up(StaleView(reason));
}

std::vector<cluster::ShardReport> ReplicaLink::reports() const {
  const MutexLock lock(mutex_);
  std::vector<cluster::ShardReport> reports;
  for (const State& state : states_) {
    reports.push_back({.shard = state.number,
                       .replica = options_.replica.id,
                       .in_sync = state.in_sync && known_,
                       .failure = failed_because_,
                       .silent = host_silent_});
  }
  return reports;
}

}  // namespace trireme::ps
