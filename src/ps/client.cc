#include "ps/client.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/numbers/exact_sum.h"
#include "optim/clipping.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kMaxRequestChunks = 512;          // keeps a request's body small
constexpr std::size_t kNetworkRequestBytes = 1u << 20;  // small enough that a server updates while the next one arrives
constexpr auto kProbeSlack = 500ms;                     // hosts are asked for a sign of life every second

}  // namespace

struct Client::Sent {
  Peer* peer;
  std::shared_ptr<net::PendingReply> pending;
  std::vector<std::uint32_t> chunks;
  StepInfo info;
  bool push;
  bool pull;
  bool applies;
};

Client::Client(net::EventLoop& loop, ClientOptions options) : loop_(loop), options_(std::move(options)) { connect(); }

Client::~Client() { close_peers(); }  // nothing may write into our memory any more

std::shared_ptr<net::Connection> Client::connect(const cluster::MemberInfo& server, net::Transport transport) try {
  return net::Connection::open(loop_, server.address,
                               {.secret = options_.secret,
                                .transport = transport,
                                .role = "server",
                                .peer_name = fmt::format("server {}", server.slot),
                                .deadline = Deadline::in(options_.timeout),
                                .await_listener = false,  // who is in a view listens, or is dead
                                .bits_per_second = options_.bits_per_second,
                                .silent_after = options_.silent_after});
} catch (const net::HostSilent&) {
  note_unreachable(server.id);
  throw;
}

net::InFrame Client::wait(const Peer& peer, const std::shared_ptr<net::PendingReply>& pending, Deadline deadline,
                          const std::string& what) const try {
  const auto describe = [&] {
    const auto& servers = options_.view.servers;
    const auto at = std::ranges::find(servers, peer.server, &cluster::MemberInfo::id) - servers.begin();
    return AwaitedWork{.what = what, .servers = {static_cast<Rank>(at)}};
  };
  const WaitBoard::Entry entry(options_.waits, std::cref(describe));
  return peer.connection->wait(pending, deadline, what);
} catch (const net::HostSilent&) {
  note_unreachable(peer.server);
  throw;
}

void Client::connect() {
  const cluster::ViewInfo& view = options_.view;
  const auto self = std::ranges::find(view.workers, options_.member, &cluster::MemberInfo::id);
  if (self == view.workers.end())
    fail<InvalidArgument>("member {} is no worker of view {}", options_.member, view.view);
  rank_ = static_cast<Rank>(self - view.workers.begin());
  if (view.shards.empty()) fail<InvalidArgument>("view {} has no parameter servers", view.view);
  shard_peers_.assign(view.shards.size(), nullptr);
  for (const cluster::MemberInfo& server : view.servers) {
    const auto holds = [&](const cluster::ShardPlace& place) { return place.primary == server.id; };
    auto peer = std::ranges::any_of(view.shards, holds) ? std::make_unique<Peer>() : nullptr;
    if (peer) {
      peer->server = server.id;
      peer->connection = connect(server, options_.transport);
      for (std::size_t shard = 0; shard < view.shards.size(); ++shard) {
        if (holds(view.shards[shard])) shard_peers_[shard] = peer.get();
      }
    }
    const MutexLock lock(peers_mutex_);
    peers_.push_back(std::move(peer));
    if (!interrupted_.empty()) fail<PeerLost>("view {} is over: {}", view.view, interrupted_);
  }
  for (std::size_t shard = 0; shard < shard_peers_.size(); ++shard) {
    if (shard_peers_[shard] == nullptr) {
      fail<InvalidArgument>("view {} has no primary for shard {}", view.view, shard);
    }
  }
}

void Client::close_peers() {
  for (const auto& peer : peers_) {
    if (peer) peer->connection->close();
  }
  sent_.clear();
}

void Client::enter(const cluster::ViewInfo& view, MemberId member) {
  close_peers();  // no late answer can write into our memory
  {
    const MutexLock lock(peers_mutex_);
    peers_.clear();
    interrupted_.clear();
  }
  for (codec::ErrorFeedback& feedback : feedback_) feedback.undo();  // of a step that was interrupted
  options_.view = view;
  options_.member = member;
  connect();
  if (gradient_segment_) open_peers();
}

void Client::open(std::vector<TableSpec> tables, const TableOptions& options) {
  TRIREME_CHECK(gradient_segment_ == nullptr, "open is called once");
  const auto most = static_cast<std::uint32_t>(options_.view.shards.size());
  const std::uint32_t shards = useful_shards(tables, most, most / cluster::kShardsPerServer);
  layout_ = Layout(tables, shards, options.placement);
  const std::size_t floats = layout_.worker_floats();
  for (auto& memory : memory_) memory = std::make_unique_for_overwrite<float[]>(floats + kChunkAlignment);
  const auto aligned = [&](std::unique_ptr<float[]>& memory) {
    void* start = memory.get();
    std::size_t room = (floats + kChunkAlignment) * sizeof(float);
    std::align(64, floats * sizeof(float), start, room);
    return std::span(static_cast<float*>(start), floats);
  };
  parameters_ = aligned(memory_[0]);
  arriving_ = aligned(memory_[1]);
  std::ranges::fill(parameters_, 0.0f);
  gradient_segment_ = net::Segment::create("trireme-gradients", floats * sizeof(float));
  gradient_segment_->seal_writes();  // servers only read it
  gradients_ = {reinterpret_cast<float*>(gradient_segment_->bytes().data()), floats};
  prepare_codec(options.codec);
  job_ = {.tables = std::move(tables),
          .shards = shards,
          .max_chunk_bytes = options.placement.max_chunk_bytes,
          .update = options.update,
          .consistency = options.consistency,
          .codec = options.codec,
          .lanes = options_.lanes,
          .checkpoint_every = options.checkpoint_every,
          .clip_norm = options.clip_norm,
          .skips = options.skips};
  open_peers();
}

void Client::open_peers() {
  in_place_ = true;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i]) continue;
    Peer& peer = *peers_[i];
    const OpenRequest request{.job = job_, .view = options_.view, .server = options_.view.servers[i].id};
    const auto reply = call<OpenReply>(peer, kOpen, request, "the opening of tables");
    peer.shares_memory = reply.shares_memory;
    peer.saves = reply.saves;
    in_place_ = in_place_ && reply.shares_memory;
    if (!reply.shares_memory) continue;
    if (reply.shards.size() != reply.segments.size()) fail<Corrupt>("{} shared nonsense", peer.connection->peer());
    peer.gradient_segment = peer.connection->channel().share(gradient_segment_);
    if (encoded_segment_) peer.encoded_segment = peer.connection->channel().share(encoded_segment_);
    peer.parameters.resize(layout_.shards());
    for (std::size_t k = 0; k < reply.shards.size(); ++k) {
      if (reply.shards[k] < layout_.shards()) {
        peer.parameters[reply.shards[k]] = peer.connection->channel().shared(reply.segments[k]);
      }
    }
    for (std::uint32_t shard = 0; shard < layout_.shards(); ++shard) {
      if (shard_peers_[shard] != &peer || layout_.shard_chunks(shard) == 0) continue;
      const std::uint64_t expected =
          version_words_bytes(layout_.shard_chunks(shard)) + layout_.shard_floats(shard) * sizeof(float);
      if (!peer.parameters[shard] || peer.parameters[shard]->bytes().size() < expected) {
        fail<Corrupt>("{} shared memory of another size than its tables", peer.connection->peer());
      }
    }
  }
}

Client::Peer& Client::peer_of(std::uint32_t chunk) { return *shard_peers_[layout_.chunks()[chunk].place.shard]; }

void Client::prepare_codec(const codec::Spec& spec) {
  codec_ = spec;
  if (spec.kind == codec::Kind::kNone) return;
  std::uint64_t bytes = 0;
  for (const Layout::Chunk& chunk : layout_.chunks()) {
    feedback_.emplace_back(codec_of(chunk), chunk.place.count);
    encoded_offsets_.push_back(bytes);
    bytes += (codec::encoded_bytes(codec_of(chunk), chunk.place.count) + 63) / 64 * 64;
  }
  encoded_segment_ = net::Segment::create("trireme-encoded", bytes);
  encoded_segment_->seal_writes();  // error feedback reads back what was encoded
}

codec::Spec Client::codec_of(const Layout::Chunk& chunk) const {
  return layout_.tables()[chunk.place.table].sums ? codec::Spec{} : codec_;
}

MutableBytes Client::encode(std::uint32_t chunk, Step step) {
  const auto began = Deadline::Clock::now();
  const Layout::Chunk& place = layout_.chunks()[chunk];
  const MutableBytes out = encoded_segment_->bytes().subspan(encoded_offsets_[chunk],
                                                             codec::encoded_bytes(codec_of(place), place.place.count));
  feedback_[chunk].encode(codec_key(step, chunk), gradients_.subspan(place.worker_offset, place.place.count), out);
  traffic_.encode_seconds += seconds(Deadline::Clock::now() - began);
  return out;
}

std::span<float> Client::parameters(std::uint32_t table) {
  return parameters_.subspan(layout_.table_offset(table), layout_.tables()[table].elements);
}

std::span<float> Client::gradients(std::uint32_t table) {
  return gradients_.subspan(layout_.table_offset(table), layout_.tables()[table].elements);
}

void Client::assign() {
  // The values go the way gradients go: through the gradient memory.
  std::copy(parameters_.begin(), parameters_.end(), gradients_.begin());
  std::vector<std::pair<Peer*, std::shared_ptr<net::PendingReply>>> pending;
  for (std::uint32_t index = 0; index < layout_.chunks().size(); ++index) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    Peer& peer = peer_of(index);
    PushPullRequest request{.worker = rank_, .push = true, .chunks = {index}};
    net::Connection::Request message{.kind = kAssign, .view = options_.view.view};
    if (peer.shares_memory) {
      request.segment = peer.gradient_segment;
      request.offsets = {chunk.worker_offset * sizeof(float)};
    } else {
      message.payload = {std::as_bytes(gradients_.subspan(chunk.worker_offset, chunk.place.count))};
    }
    message.body = net::encode_message(request);
    pending.emplace_back(&peer, peer.connection->send(std::move(message)));
  }
  for (const auto& [peer, reply] : pending) {
    wait(*peer, reply, Deadline::in(options_.timeout), "the initial parameters");
  }
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
}

StepOutcome Client::pull() {
  std::vector<std::uint32_t> chunks(layout_.chunks().size());
  for (std::uint32_t i = 0; i < chunks.size(); ++i) chunks[i] = i;
  send_chunks(chunks, {.pull = true});
  return finish();
}

void Client::push(std::span<const std::uint32_t> tables, const StepInfo& info, bool pull) {
  std::vector<std::uint32_t> chunks;
  for (const std::uint32_t table : tables) {
    for (std::uint32_t i = 0; i < layout_.chunk_count(table); ++i) chunks.push_back(layout_.first_chunk(table) + i);
  }
  send_chunks(chunks, {.info = info, .push = true, .pull = pull});
}

/// Asks each server for `what`, of those of the chunks that it holds.
void Client::send_chunks(std::span<const std::uint32_t> chunks, const PushPullRequest& what) {
  step_ = what.push || what.apply != 0 ? std::optional(what.info.step) : std::nullopt;
  const ScopedSpan span(options_.spans, what.push ? "push" : "ask", step_);
  for (const auto& peer : peers_) {
    if (!peer) continue;
    std::vector<std::uint32_t> group;
    std::size_t bytes = 0;
    const auto flush = [&] {
      if (!group.empty()) send(*peer, group, what);
      group.clear();
      bytes = 0;
    };
    for (const std::uint32_t index : chunks) {
      if (&peer_of(index) != peer.get()) continue;
      const std::size_t size = layout_.chunks()[index].place.count * sizeof(float);
      const bool full = !peer->shares_memory && bytes + size > kNetworkRequestBytes;
      if (full || group.size() == kMaxRequestChunks) flush();
      group.push_back(index);
      bytes += size;
    }
    flush();
  }
}

void Client::send(Peer& peer, std::span<const std::uint32_t> chunks, PushPullRequest request) {
  const bool push = request.push;
  const bool wanted = request.pull;
  const bool weighed = push && job_.weighs();  // what is new is asked for when it is applied
  const bool pull = wanted && !weighed;
  request.worker = rank_;
  request.pull = pull;
  net::Connection::Request message{.kind = kPushPull, .view = options_.view.view};
  const bool shared = peer.shares_memory;
  const bool encoded = encoded_segment_ != nullptr;
  for (const std::uint32_t index : chunks) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    request.chunks.push_back(index);
    const auto range = [&](std::span<float> memory) {
      return std::as_writable_bytes(memory.subspan(chunk.worker_offset, chunk.place.count));
    };
    if (push) {
      if (!prune_below_.empty()) request.prune_below.push_back(prune_below_[chunk.place.table]);
      const Bytes gradient = encoded ? encode(index, request.info.step) : range(gradients_);
      if (shared) {
        request.offsets.push_back(encoded ? encoded_offsets_[index] : chunk.worker_offset * sizeof(float));
      } else {
        message.payload.push_back(gradient);
      }
      traffic_.pushed_bytes += gradient.size();
      traffic_.gradient_bytes += chunk.place.count * sizeof(float);
    }
    if (pull) traffic_.pulled_bytes += chunk.place.count * sizeof(float);
    if (!shared && pull) message.sinks.push_back(range(arriving_));
  }
  if (shared && push) request.segment = encoded ? peer.encoded_segment : peer.gradient_segment;
  message.body = net::encode_message(request);
  sent_.push_back({.peer = &peer,
                   .pending = peer.connection->send(std::move(message)),
                   .chunks = {chunks.begin(), chunks.end()},
                   .info = request.info,
                   .push = push,
                   .pull = wanted,
                   .applies = request.apply != 0});
}

/// The servers have all gradients of a step, and say what they weigh: together that gives the norm, and so what the
/// mean is multiplied by, or that the step is left out. All workers come to the same.
void Client::apply_pushed(Deadline deadline) {
  std::vector<Sent> sent;
  sent.swap(sent_);
  ExactSum squares;
  double samples = 0;
  PushPullRequest what;
  std::vector<std::uint32_t> chunks;
  {
    const ScopedSpan waiting(options_.spans, "wait", step_);
    for (const Sent& request : sent) {
      const auto frame = wait(*request.peer, request.pending, deadline, "a push");
      const auto weight = net::decode_message<RoundWeight>(frame.body_bytes());
      squares.add(ExactSum::from_words(weight.squares));
      samples = weight.samples;
      what.info = request.info;
      what.pull = what.pull || request.pull;
      chunks.insert(chunks.end(), request.chunks.begin(), request.chunks.end());
    }
  }
  what.apply = 1;
  if (job_.skips && !std::isfinite(squares.value())) {
    what.apply = kLeaveOut;
  } else if (job_.clip_norm > 0) {
    what.apply = optim::clip_factor(squares, samples, job_.clip_norm, what.info.step);
  }
  send_chunks(chunks, what);
}

StepOutcome Client::finish() {
  StepOutcome outcome = StepOutcome::none();
  const Deadline deadline = Deadline::in(options_.step_timeout);
  prune_below_.clear();
  if (job_.weighs() && !sent_.empty() && sent_.front().push) apply_pushed(deadline);
  std::vector<Sent> sent;
  sent.swap(sent_);
  std::vector<std::uint32_t> pulled;
  std::optional<ScopedSpan> waiting;
  waiting.emplace(options_.spans, "wait", step_);
  for (const Sent& request : sent) {
    const auto frame = wait(*request.peer, request.pending, deadline, "a push or pull");
    if (request.pull) pulled.insert(pulled.end(), request.chunks.begin(), request.chunks.end());
    outcome.add(net::decode_message<StepOutcome>(frame.body_bytes()));
  }
  waiting.reset();
  const ScopedSpan pulling(options_.spans, "pull", step_);
  const bool must_be_whole = job_.consistency.synchronous() && job_.consistency.backup_workers == 0;
  if (must_be_whole && !outcome.whole()) return outcome;
  for (const Sent& request : sent) {  // all is there: nothing can fail any more
    if (request.pull && request.peer->shares_memory) copy_shared(*request.peer, request.chunks, deadline);
    for (const std::uint32_t chunk : request.chunks) {
      if ((request.push || request.applies) && !feedback_.empty()) feedback_[chunk].commit();
    }
  }
  if (!in_place_) place_new(pulled);
  return outcome;
}

/// What has arrived becomes the parameters.
void Client::place_new(std::span<const std::uint32_t> chunks) {
  if (chunks.size() == layout_.chunks().size()) return std::swap(parameters_, arriving_);
  for (const std::uint32_t index : chunks) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    std::memcpy(parameters_.data() + chunk.worker_offset, arriving_.data() + chunk.worker_offset,
                chunk.place.count * sizeof(float));
  }
}

void Client::copy_shared(const Peer& peer, std::span<const std::uint32_t> chunks, Deadline deadline) {
  float* const to = (in_place_ ? parameters_ : arriving_).data();
  for (const std::uint32_t index : chunks) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    const std::byte* base = peer.parameters[chunk.place.shard]->bytes().data();
    const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(base);
    const auto* floats =
        reinterpret_cast<const float*>(base + version_words_bytes(layout_.shard_chunks(chunk.place.shard)));
    const auto& word = words[chunk.shard_index];
    for (;;) {
      const std::uint64_t before = word.load(std::memory_order_acquire);
      if (before % 2 == 0) {
        std::memcpy(to + chunk.worker_offset, floats + chunk.shard_offset, chunk.place.count * sizeof(float));
        std::atomic_thread_fence(std::memory_order_acquire);
        if (word.load(std::memory_order_relaxed) == before) break;  // else an update came in between (ssp, asp)
      }
      if (deadline.passed() || peer.connection->closed()) {
        fail<Timeout>("{} did not finish an update of its shared parameters", peer.connection->peer());
      }
      std::this_thread::yield();
    }
  }
}

void Client::interrupt(const std::string& reason) {
  const MutexLock lock(peers_mutex_);
  interrupted_ = reason;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const bool watched = options_.silent_after.count() > 0;
    if (watched && peer->connection->host_silence() > options_.silent_after / 2 + kProbeSlack) {
      note_unreachable(peer->server);  // others have noticed it first, perhaps: who may meet again depends on all of us
    }
    peer->connection->channel().close(reason);
  }
  for (const auto& connection : network_) {
    if (connection) connection->channel().close(reason);
  }
}

void Client::leave() {
  for (const auto& peer : peers_) {
    if (!peer) continue;
    try {
      call<Done>(*peer, kLeave, LeaveRequest{rank_}, "the leave");
    } catch (const PeerLost&) {  // it waits for nobody any more; its replica, if it has one, is told itself
    }
  }
}

LoadStatus Client::load_status() {
  LoadStatus all;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    all.add(call<LoadStatus>(*peer, kLoadStatus, Nothing{}, "what it holds"));
  }
  return all;
}

std::vector<ServerStats> Client::server_stats() {
  std::vector<ServerStats> stats;
  for (const auto& peer : peers_) {
    if (!peer) continue;
    stats.push_back(call<ServerStats>(*peer, kStats, Nothing{}, "its statistics"));
  }
  return stats;
}

std::string Client::transports() const {
  std::string text;
  for (const auto& peer : peers_) {
    if (peer) text += (text.empty() ? "" : ", ") + peer->connection->peer();
  }
  return text;
}

}  // namespace trireme::ps
