// The client's side of checkpoints: whole chunks with their optimizer state.

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/ps/client.h"
#include "trireme/ps/replica.h"

namespace trireme::ps {

/// Connections over the network to the servers, in the view's order: whole chunks do not fit the rings of shared
/// memory.
std::vector<std::shared_ptr<net::Connection>> Client::dial_network() {
  std::vector<std::shared_ptr<net::Connection>> connections;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    const cluster::MemberInfo& server = options_.view.servers[i];
    connections.push_back(peers_[i] ? dial(server, network_transport(options_.transport, server.address)) : nullptr);
  }
  return connections;
}

JobImage Client::fetch() {
  const auto connections = dial_network();
  JobImage image{.oldest = ~Step{0}, .newest = 0, .updates = 0, .tables = {}};
  const std::size_t arrays = state_floats(job_.update.rule);
  for (const TableSpec& table : layout_.tables()) {
    image.tables.push_back({std::vector<float>(table.elements), {}});
    image.tables.back().state.assign(arrays, std::vector<float>(table.elements));
  }
  for (std::uint32_t index = 0; index < layout_.chunks().size(); ++index) {
    const ChunkPlace& place = layout_.chunks()[index].place;
    TableImage& table = image.tables[place.table];
    const auto range = [&](std::vector<float>& values) {
      return std::as_writable_bytes(std::span(values).subspan(place.begin, place.count));
    };
    net::Connection::Request request{
        .kind = kFetch, .view = options_.view.view, .body = net::encode_body(FetchRequest{index})};
    request.sinks.push_back(range(table.parameters));
    for (std::vector<float>& state : table.state) request.sinks.push_back(range(state));
    net::Connection& server = *connections[server_of(place.shard)];
    const auto reply = server.wait(server.send(std::move(request)), Deadline::in(options_.timeout), "a whole chunk");
    const auto header = net::decode_body<ChunkHeader>(reply.body_bytes());
    image.oldest = std::min(image.oldest, header.version);
    image.newest = std::max(image.newest, header.version);
    image.updates = std::max(image.updates, header.updates);
  }
  return image;
}

void Client::restore(const JobImage& image) {
  const std::size_t arrays = state_floats(job_.update.rule);
  if (image.tables.size() != layout_.tables().size()) {
    fail<InvalidArgument>("a checkpoint of {} tables does not fit a model of {}", image.tables.size(),
                          layout_.tables().size());
  }
  for (std::size_t i = 0; i < image.tables.size(); ++i) {
    const TableSpec& table = layout_.tables()[i];
    const auto fits = [&](const std::vector<float>& values) { return values.size() == table.elements; };
    const TableImage& saved = image.tables[i];
    if (!fits(saved.parameters) || saved.state.size() != arrays || !std::ranges::all_of(saved.state, fits)) {
      fail<InvalidArgument>("what was saved of table '{}' has another size, or is of another optimizer", table.name);
    }
  }
  const auto connections = dial_network();
  for (std::uint32_t index = 0; index < layout_.chunks().size(); ++index) {
    const ChunkPlace& place = layout_.chunks()[index].place;
    const TableImage& table = image.tables[place.table];
    const ChunkHeader header{.chunk = index,
                             .assigned = true,
                             .stop = false,
                             .version = image.newest,
                             .updates = image.updates,
                             .history = mix_seed(image.newest, image.updates, options_.view.view),
                             .units = {},
                             .clocks = {}};
    net::Connection::Request request{.kind = kRestore, .view = options_.view.view, .body = net::encode_body(header)};
    const auto add = [&](const std::vector<float>& values) {
      request.payload.push_back(std::as_bytes(std::span(values).subspan(place.begin, place.count)));
    };
    add(table.parameters);
    for (const std::vector<float>& state : table.state) add(state);
    net::Connection& server = *connections[server_of(place.shard)];
    server.wait(server.send(std::move(request)), Deadline::in(options_.timeout), "a chunk to be restored");
  }
}

std::size_t Client::server_of(std::uint32_t shard) const {
  const auto same = [&](const std::unique_ptr<Peer>& peer) { return peer.get() == shard_peers_[shard]; };
  return static_cast<std::size_t>(std::ranges::find_if(peers_, same) - peers_.begin());
}

}  // namespace trireme::ps
