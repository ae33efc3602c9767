// The client's side of checkpoints: whole chunks with their optimizer state.

#include <algorithm>
#include <deque>
#include <ranges>

#include "base/error.h"
#include "ps/client.h"
#include "ps/replica_link.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kInFlight = 16;  // chunks at a time: the network is busy, and no server holds many copies

}  // namespace

/// Connections over the network to the servers, in the view's order: whole chunks do not fit the rings of shared
/// memory. They end with `interrupt`, or when this does.
class Client::Network {
 public:
  explicit Network(Client& client) : client_(client) {
    // The client gets all of them or none: one that cannot be reached leaves no others behind for the next time.
    std::vector<std::shared_ptr<net::Connection>> connections;
    for (std::size_t i = 0; i < client.peers_.size(); ++i) {
      const cluster::MemberInfo& server = client.options_.view.servers[i];
      connections.push_back(
          client.peers_[i] ? client.connect(server, net::network_transport(client.options_.transport, server.address))
                           : nullptr);
      const MutexLock lock(client.peers_mutex_);
      if (!client.interrupted_.empty()) fail<PeerLost>("{}", client.interrupted_);
    }
    const MutexLock lock(client.peers_mutex_);
    if (!client.interrupted_.empty()) fail<PeerLost>("{}", client.interrupted_);
    client.network_ = std::move(connections);  // from now on `interrupt` closes them
  }
  ~Network() {
    const MutexLock lock(client_.peers_mutex_);
    for (const auto& connection : client_.network_) {
      if (connection) connection->close();  // nothing may write into our memory any more
    }
    client_.network_.clear();
  }
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  net::Connection& of_shard(std::uint32_t shard) const {
    const auto same = [&](const std::unique_ptr<Peer>& peer) { return peer.get() == client_.shard_peers_[shard]; };
    return *client_.network_[static_cast<std::size_t>(std::ranges::find_if(client_.peers_, same) -
                                                      client_.peers_.begin())];
  }

  /// Makes a request for each chunk, and gives the answers to `done`: several at a time.
  template <typename MakeRequest, typename Done>
  void for_each_chunk(const MakeRequest& make, const std::string& what, const Done& done) {
    std::deque<std::pair<net::Connection*, std::shared_ptr<net::PendingReply>>> pending;
    const auto take_first = [&] {
      const auto [server, reply] = pending.front();
      done(server->wait(reply, Deadline::in(client_.options_.timeout), what));
      pending.pop_front();
    };
    for (std::uint32_t index = 0; index < client_.layout_.chunks().size(); ++index) {
      if (pending.size() == kInFlight) take_first();
      net::Connection& server = of_shard(client_.layout_.chunks()[index].place.shard);
      pending.emplace_back(&server, server.send(make(index)));
    }
    while (!pending.empty()) take_first();
  }

 private:
  Client& client_;
};

std::size_t Client::state_arrays(const TableSpec& table) const {
  return table.sums ? 0 : optim::state_floats(job_.update);
}

TablesState Client::empty_state() const {
  TablesState state;
  for (const TableSpec& table : layout_.tables()) {
    state.tables.push_back({std::vector<float>(table.elements), {}});
    state.tables.back().state.assign(state_arrays(table), std::vector<float>(table.elements));
  }
  return state;
}

TablesState Client::fetch() {
  TablesState state = empty_state();
  state.oldest = ~Step{0};
  const auto request = [&](std::uint32_t index) {
    const ChunkPlace& place = layout_.chunks()[index].place;
    TableState& table = state.tables[place.table];
    const auto range = [&](std::vector<float>& values) {
      return std::as_writable_bytes(std::span(values).subspan(place.begin, place.count));
    };
    net::Connection::Request message{
        .kind = kFetch, .view = options_.view.view, .body = net::encode_message(FetchRequest{index})};
    message.sinks.push_back(range(table.parameters));
    for (std::vector<float>& each : table.state) message.sinks.push_back(range(each));
    return message;
  };
  Network network(*this);
  network.for_each_chunk(request, "a whole chunk", [&](const net::InFrame& reply) {
    const auto header = net::decode_message<ChunkHeader>(reply.body_bytes());
    state.oldest = std::min(state.oldest, header.version);
    state.newest = std::max(state.newest, header.version);
    state.updates = std::max(state.updates, header.updates);
  });
  return state;
}

/// The servers that are the primary of some chunk, in the view's order.
std::vector<Client::Peer*> Client::holders() const {
  std::vector<Peer*> holders;
  for (const auto& peer : peers_) {
    const auto chunks = [&](std::uint32_t shard) {
      return shard_peers_[shard] == peer.get() ? layout_.shard_chunks(shard) : 0;
    };
    const auto shards = std::views::iota(0u, layout_.shards());
    if (peer && std::ranges::any_of(shards, chunks)) holders.push_back(peer.get());
  }
  return holders;
}

bool Client::servers_save() const { return std::ranges::all_of(holders(), &Peer::saves); }

Client::SaveOutcome Client::save(SaveRequest request) {
  const std::vector<Peer*> servers = holders();
  SaveOutcome outcome{.parts = static_cast<std::uint32_t>(servers.size()), .updates = 0, .problem = {}};
  request.parts = outcome.parts + 1;
  std::vector<std::shared_ptr<net::PendingReply>> pending;
  for (const Peer* server : servers) {
    ++request.part;
    pending.push_back(
        server->connection->send({.kind = kSave, .view = options_.view.view, .body = net::encode_message(request)}));
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    net::Connection& connection = *servers[i]->connection;
    const auto reply = net::decode_message<SaveReply>(
        connection.wait(pending[i], Deadline::in(options_.timeout), "its part of a checkpoint").body_bytes());
    outcome.updates = std::max(outcome.updates, reply.updates);
    if (!reply.problem.empty()) outcome.problem = fmt::format("{}: {}", connection.peer(), reply.problem);
  }
  return outcome;
}

void Client::restore(const TablesState& state) {
  if (state.tables.size() != layout_.tables().size()) {
    fail<InvalidArgument>("a checkpoint of {} tables does not fit a model of {}", state.tables.size(),
                          layout_.tables().size());
  }
  for (std::size_t i = 0; i < state.tables.size(); ++i) {
    const TableSpec& table = layout_.tables()[i];
    const auto fits = [&](const std::vector<float>& values) { return values.size() == table.elements; };
    const TableState& saved = state.tables[i];
    if (!fits(saved.parameters) || saved.state.size() != state_arrays(table) ||
        !std::ranges::all_of(saved.state, fits)) {
      fail<InvalidArgument>("what was saved of table '{}' has another size, or is of another optimizer", table.name);
    }
  }
  // Whoever asks meanwhile has to see that not all is there yet.
  for (const auto& peer : peers_) {
    if (!peer) continue;
    call<Done>(*peer, kClear, Nothing{}, "the restore");
  }
  const auto request = [&](std::uint32_t index) {
    const ChunkPlace& place = layout_.chunks()[index].place;
    const TableState& table = state.tables[place.table];
    ChunkHeader header{.chunk = index,
                       .assigned = true,
                       .stop = false,
                       .version = state.newest,
                       .updates = state.updates,
                       .history = mix_seed(state.newest, state.updates, options_.view.view),
                       .units = {}};
    if (state.units > 0) header.units = {{0, state.units}};
    net::Connection::Request message{.kind = kRestore, .view = options_.view.view, .body = net::encode_message(header)};
    const auto add = [&](const std::vector<float>& values) {
      message.payload.push_back(std::as_bytes(std::span(values).subspan(place.begin, place.count)));
    };
    add(table.parameters);
    for (const std::vector<float>& each : table.state) add(each);
    return message;
  };
  Network network(*this);
  network.for_each_chunk(request, "a chunk to be restored", [](const net::InFrame&) {});
}

}  // namespace trireme::ps
