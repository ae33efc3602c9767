#include "trireme/ps/client.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "trireme/base/error.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kMaxRequestChunks = 512;          // keeps a request's body small
constexpr std::size_t kNetworkRequestBytes = 1u << 20;  // small enough that a server updates while the next one arrives

}  // namespace

struct Client::Peer {
  Rank rank;
  std::shared_ptr<net::Connection> connection;
  std::uint64_t gradient_segment = 0;        // its id for the server; 0 = gradients travel in the payload
  std::uint64_t encoded_segment = 0;         // the same for encoded gradients
  std::shared_ptr<net::Segment> parameters;  // the server's, mapped; null = parameters travel in the payload
};

struct Client::Sent {
  Peer* peer;
  std::shared_ptr<net::PendingReply> pending;
  std::vector<std::uint32_t> chunks;
  bool pull;
};

Client::Client(net::Loop& loop, ClientOptions options) : options_(std::move(options)) {
  for (Rank rank = 0; rank < options_.servers.size(); ++rank) {
    auto peer = std::make_unique<Peer>();
    peer->rank = rank;
    peer->connection = net::Connection::open(loop, options_.servers[rank],
                                             {.secret = options_.secret,
                                              .transport = options_.transport,
                                              .peer_name = fmt::format("server {}", rank),
                                              .deadline = Deadline::in(options_.timeout),
                                              .bits_per_second = options_.bits_per_second});
    peers_.push_back(std::move(peer));
  }
}

Client::~Client() {
  for (const auto& peer : peers_) peer->connection->close();  // nothing may write into our memory any more
}

void Client::open(std::vector<TableSpec> tables, const TableOptions& options) {
  TRIREME_CHECK(gradient_segment_ == nullptr, "open is called once");
  layout_ = Layout(tables, static_cast<std::uint32_t>(peers_.size()), options.placement);
  parameter_memory_.resize(layout_.worker_floats() + kChunkAlignment);
  void* start = parameter_memory_.data();
  std::size_t room = parameter_memory_.size() * sizeof(float);
  std::align(64, layout_.worker_floats() * sizeof(float), start, room);
  parameters_ = {static_cast<float*>(start), layout_.worker_floats()};
  gradient_segment_ = net::Segment::create("trireme-gradients", layout_.worker_floats() * sizeof(float));
  gradients_ = {reinterpret_cast<float*>(gradient_segment_->bytes().data()), layout_.worker_floats()};

  prepare_codec(options.codec);

  OpenRequest request{.tables = std::move(tables),
                      .servers = layout_.servers(),
                      .max_chunk_bytes = options.placement.max_chunk_bytes,
                      .update = options.update,
                      .consistency = options.consistency,
                      .codec = options.codec,
                      .workers = options_.workers,
                      .lanes = options_.lanes};
  for (const auto& peer : peers_) {
    request.server = peer->rank;
    const auto reply = peer->connection->call<OpenReply>(kOpen, options_.view, request, Deadline::in(options_.timeout),
                                                         "the opening of tables");
    if (reply.segment == 0) continue;
    peer->gradient_segment = peer->connection->channel().share(gradient_segment_);
    if (encoded_segment_) peer->encoded_segment = peer->connection->channel().share(encoded_segment_);
    peer->parameters = peer->connection->channel().shared(reply.segment);
    const std::uint64_t expected =
        version_words_bytes(layout_.server_chunks(peer->rank)) + layout_.server_floats(peer->rank) * sizeof(float);
    if (!peer->parameters || peer->parameters->bytes().size() < expected) {
      fail<Corrupt>("{} shared memory of another size than its tables", peer->connection->peer());
    }
  }
}

void Client::prepare_codec(const codec::Spec& spec) {
  codec_ = spec;
  if (spec.kind == codec::Kind::kNone) return;
  std::uint64_t bytes = 0;
  for (const Layout::Chunk& chunk : layout_.chunks()) {
    feedback_.emplace_back(spec, chunk.place.count);
    encoded_offsets_.push_back(bytes);
    bytes += (codec::encoded_bytes(spec, chunk.place.count) + 63) / 64 * 64;
  }
  encoded_segment_ = net::Segment::create("trireme-encoded", bytes);
}

MutableBytes Client::encode(std::uint32_t chunk, Step step) {
  const auto began = Deadline::Clock::now();
  const Layout::Chunk& place = layout_.chunks()[chunk];
  const MutableBytes out =
      encoded_segment_->bytes().subspan(encoded_offsets_[chunk], codec::encoded_bytes(codec_, place.place.count));
  feedback_[chunk].encode(codec_key(step, place.server_index),
                          gradients_.subspan(place.worker_offset, place.place.count), out);
  feedback_[chunk].commit();
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
  for (const Layout::Chunk& chunk : layout_.chunks()) {
    Peer& peer = *peers_[chunk.place.server];
    ExchangeRequest request{.worker = options_.worker, .push = true, .chunks = {chunk.server_index}};
    net::Connection::Request message{.kind = kAssign, .view = options_.view};
    if (peer.gradient_segment != 0) {
      request.segment = peer.gradient_segment;
      request.offsets = {chunk.worker_offset * sizeof(float)};
    } else {
      message.payload = {std::as_bytes(gradients_.subspan(chunk.worker_offset, chunk.place.count))};
    }
    message.body = net::encode_body(request);
    pending.emplace_back(&peer, peer.connection->send(std::move(message)));
  }
  for (const auto& [peer, reply] : pending) {
    peer->connection->wait(reply, Deadline::in(options_.timeout), "the initial parameters");
  }
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
}

StepOutcome Client::pull() {
  std::vector<std::uint32_t> chunks(layout_.chunks().size());
  for (std::uint32_t i = 0; i < chunks.size(); ++i) chunks[i] = i;
  send_chunks(chunks, {}, /*push=*/false, /*pull=*/true);
  return finish();
}

void Client::push(std::span<const std::uint32_t> tables, const PushInfo& info, bool pull) {
  std::vector<std::uint32_t> chunks;
  for (const std::uint32_t table : tables) {
    for (std::uint32_t i = 0; i < layout_.chunk_count(table); ++i) chunks.push_back(layout_.first_chunk(table) + i);
  }
  send_chunks(chunks, info, /*push=*/true, pull);
}

void Client::send_chunks(std::span<const std::uint32_t> chunks, const PushInfo& info, bool push, bool pull) {
  for (const auto& peer : peers_) {
    std::vector<std::uint32_t> group;
    std::size_t bytes = 0;
    const auto flush = [&] {
      if (!group.empty()) send(*peer, group, info, push, pull);
      group.clear();
      bytes = 0;
    };
    for (const std::uint32_t index : chunks) {
      const ChunkPlace& place = layout_.chunks()[index].place;
      if (place.server != peer->rank) continue;
      const std::size_t size = place.count * sizeof(float);
      const bool full = peer->parameters == nullptr && bytes + size > kNetworkRequestBytes;
      if (full || group.size() == kMaxRequestChunks) flush();
      group.push_back(index);
      bytes += size;
    }
    flush();
  }
}

void Client::send(Peer& peer, std::span<const std::uint32_t> chunks, const PushInfo& info, bool push, bool pull) {
  ExchangeRequest request{.worker = options_.worker,
                          .step = info.step,
                          .first_lane = info.lanes.first,
                          .lane_count = info.lanes.count,
                          .samples = info.samples,
                          .lr = info.lr,
                          .stop = info.stop,
                          .push = push,
                          .pull = pull};
  net::Connection::Request message{.kind = kExchange, .view = options_.view};
  const bool shared = peer.parameters != nullptr;
  const bool encoded = encoded_segment_ != nullptr;
  for (const std::uint32_t index : chunks) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    request.chunks.push_back(chunk.server_index);
    const auto range = [&](std::span<float> memory) {
      return std::as_writable_bytes(memory.subspan(chunk.worker_offset, chunk.place.count));
    };
    if (push) {
      const Bytes gradient = encoded ? encode(index, info.step) : range(gradients_);
      if (shared) {
        request.offsets.push_back(encoded ? encoded_offsets_[index] : chunk.worker_offset * sizeof(float));
      } else {
        message.payload.push_back(gradient);
      }
      traffic_.pushed_bytes += gradient.size();
      traffic_.gradient_bytes += chunk.place.count * sizeof(float);
    }
    if (pull) traffic_.pulled_bytes += chunk.place.count * sizeof(float);
    if (!shared && pull) message.sinks.push_back(range(parameters_));
  }
  if (shared && push) request.segment = encoded ? peer.encoded_segment : peer.gradient_segment;
  message.body = net::encode_body(request);
  sent_.push_back({.peer = &peer,
                   .pending = peer.connection->send(std::move(message)),
                   .chunks = {chunks.begin(), chunks.end()},
                   .pull = pull});
}

StepOutcome Client::finish() {
  StepOutcome outcome{.oldest = ~Step{0}};
  const Deadline deadline = Deadline::in(options_.step_timeout);
  std::vector<Sent> sent;
  sent.swap(sent_);
  for (const Sent& request : sent) {
    const auto frame = request.peer->connection->wait(request.pending, deadline, "a push or pull");
    const auto reply = net::decode_body<ExchangeReply>(frame.body_bytes());
    if (request.pull && request.peer->parameters) copy_shared(*request.peer, request.chunks, deadline);
    outcome.oldest = std::min(outcome.oldest, reply.oldest);
    outcome.newest = std::max(outcome.newest, reply.newest);
    outcome.counted = outcome.counted && reply.counted;
    outcome.stop = outcome.stop || reply.stop;
  }
  return outcome;
}

void Client::copy_shared(const Peer& peer, std::span<const std::uint32_t> chunks, Deadline deadline) {
  const std::byte* base = peer.parameters->bytes().data();
  const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(base);
  const auto* floats = reinterpret_cast<const float*>(base + version_words_bytes(layout_.server_chunks(peer.rank)));
  for (const std::uint32_t index : chunks) {
    const Layout::Chunk& chunk = layout_.chunks()[index];
    const auto& word = words[chunk.server_index];
    for (std::uint64_t before = word.load(std::memory_order_acquire);;) {
      if (before % 2 == 0) {
        std::memcpy(parameters_.data() + chunk.worker_offset, floats + chunk.server_offset,
                    chunk.place.count * sizeof(float));
        std::atomic_thread_fence(std::memory_order_acquire);
        const std::uint64_t after = word.load(std::memory_order_relaxed);
        if (after == before) break;
        before = after;
        continue;  // an update came in between (ssp, asp): copy again
      }
      if (deadline.passed()) {
        fail<Timeout>("{} did not finish an update of its shared parameters in time", peer.connection->peer());
      }
      std::this_thread::yield();
      before = word.load(std::memory_order_acquire);
    }
  }
}

void Client::interrupt(const std::string& reason) {
  for (const auto& peer : peers_) peer->connection->channel().close(reason);
}

void Client::leave() {
  for (const auto& peer : peers_) {
    peer->connection->call<Done>(kLeave, options_.view, LeaveRequest{options_.worker}, Deadline::in(options_.timeout),
                                 "the leave");
  }
}

std::vector<ServerStats> Client::server_stats() {
  std::vector<ServerStats> stats;
  for (const auto& peer : peers_) {
    stats.push_back(peer->connection->call<ServerStats>(kStats, options_.view, Nothing{},
                                                        Deadline::in(options_.timeout), "its statistics"));
  }
  return stats;
}

std::string Client::transports() const {
  std::string text;
  for (const auto& peer : peers_) text += (text.empty() ? "" : ", ") + peer->connection->peer();
  return text;
}

}  // namespace trireme::ps
