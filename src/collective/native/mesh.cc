#include "collective/native/mesh.h"

#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "collective/native/host_groups.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kTurnBytes = 512u << 10;  // so that both directions of a pipe make progress
constexpr auto kSlice = 20ms;                   // the longest wait without checking which ranks are alive

std::size_t bytes_done(std::span<const Transfer> transfers) {
  std::size_t bytes = 0;
  for (const Transfer& transfer : transfers) bytes += transfer.done;
  return bytes;
}

}  // namespace

/// One rank's streams to all others while the mesh is being connected, by rank; its own are empty.
struct Mesh::Links {
  std::vector<FailureDetector::Peer> watched;
  std::vector<std::unique_ptr<net::RawStream>> data;
  std::vector<char> shared;  // != 0: over a Unix socket, so memory can be shared
};

Mesh::Mesh(Endpoint& endpoint, MeshOptions options) : options_(std::move(options)) {
  TRIREME_CHECK(options_.rank < options_.members.size(), "rank {} of {}", options_.rank, options_.members.size());
  for (Rank rank = 0; rank < size(); ++rank) single_lanes_.push_back({rank, 1});
  endpoint.enter_view(options_.view);
  Links links = connect(endpoint);
  find_hosts(links);
  make_pipes(endpoint, links);
  failure_detector_ = std::make_unique<FailureDetector>(
      rank(), std::move(links.watched), options_.silent_after,
      [&endpoint, members = options_.members](Rank silent) { endpoint.note_unreachable(members[silent]); });
}

bool Mesh::may_share(Rank one, Rank other) const {
  const bool allowed = options_.bits_per_second == 0 &&
                       (options_.transport == net::Transport::kAuto || options_.transport == net::Transport::kShm);
  const net::Address& a = options_.members[one];
  const net::Address& b = options_.members[other];
  return allowed && a.host_id == b.host_id && !a.unix_name.empty() && !b.unix_name.empty();
}

net::AuthenticatedStream Mesh::open(Endpoint& endpoint, Rank peer, Purpose purpose, net::Transport transport) const {
  const LinkName name{.view = options_.view,
                      .group = options_.group,
                      .from = std::max(rank(), peer),
                      .to = std::min(rank(), peer),
                      .purpose = purpose};
  if (calls(peer)) {
    try {
      return endpoint.connect(options_.members[peer], name, transport, options_.deadline, options_.silent_after);
    } catch (const StaleView&) {  // it has answered
      throw;
    } catch (const Error&) {
      endpoint.note_unreachable(options_.members[peer]);
      throw;
    }
  }
  net::AuthenticatedStream stream = endpoint.accept(name, options_.deadline);
  stream.peer = fmt::format("rank {} ({})", peer, stream.peer);
  return stream;
}

net::RawStream Mesh::open_raw(Endpoint& endpoint, Rank peer, Purpose purpose, bool shared) const {
  const net::Transport transport = shared ? net::Transport::kShm : net::raw_transport(options_.transport);
  const auto side = calls(peer) ? net::RawStream::Side::kConnected : net::RawStream::Side::kAccepted;
  return {open(endpoint, peer, purpose, transport), side, options_.deadline};
}

Mesh::Links Mesh::connect(Endpoint& endpoint) const {
  Links links{.watched = {},
              .data = std::vector<std::unique_ptr<net::RawStream>>(size()),
              .shared = std::vector<char>(size(), 0)};
  const auto link = [&](Rank peer) {
    const net::Transport transport =
        may_share(rank(), peer) ? options_.transport : net::raw_transport(options_.transport);
    net::AuthenticatedStream heartbeat = open(endpoint, peer, Purpose::kHeartbeat, transport);
    const bool shared = heartbeat.local();  // else it fell back: one boot id does not always mean one memory
    links.shared[peer] = shared ? 1 : 0;
    links.watched.push_back({peer, std::move(heartbeat)});
    links.data[peer] = std::make_unique<net::RawStream>(open_raw(endpoint, peer, Purpose::kData, shared));
  };
  for (Rank peer = 0; peer < rank(); ++peer) link(peer);
  for (Rank peer = rank() + 1; peer < size(); ++peer) link(peer);
  return links;
}

/// Who shares memory with whom is known to each pair only. Where any two ranks might, all tell each other.
void Mesh::find_hosts(Links& links) {
  SharedMemory shared(size(), std::vector<char>(size(), 0));
  shared[rank()] = links.shared;
  bool any = false;
  for (Rank one = 0; one < size(); ++one) {
    for (Rank other = one + 1; other < size(); ++other) any = any || may_share(one, other);
  }
  if (any) {
    for (const auto& stream : links.data) {
      if (stream) stream->send_all(std::as_bytes(std::span(links.shared)), options_.deadline);
    }
    for (Rank peer = 0; peer < size(); ++peer) {
      if (!links.data[peer]) continue;
      links.data[peer]->recv_all(std::as_writable_bytes(std::span(shared[peer])), options_.deadline);
    }
  }
  hosts_ = group_hosts(shared);
  const auto own = std::ranges::find_if(
      hosts_, [&](const std::vector<Rank>& host) { return std::ranges::binary_search(host, rank()); });
  own_host_ = static_cast<std::size_t>(own - hosts_.begin());
  crowded_ = local_ranks().size() > std::thread::hardware_concurrency();
}

void Mesh::make_pipes(Endpoint& endpoint, Links& links) {
  const std::vector<Rank>& local = local_ranks();
  std::vector<std::unique_ptr<net::RawStream>> sockets(local.size());
  pipes_.resize(size());
  message_pipes_.resize(size());
  for (Rank peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const auto place = std::ranges::lower_bound(local, peer);
    if (place != local.end() && *place == peer) {
      sockets[static_cast<std::size_t>(place - local.begin())] = std::move(links.data[peer]);
      continue;
    }
    net::RawStream& data = *links.data[peer];
    net::RawStream messages = open_raw(endpoint, peer, Purpose::kPeer, links.shared[peer] != 0);
    network_kind_ = data.kind();
    if (options_.bits_per_second > 0) {
      data.throttle(options_.bits_per_second);
      messages.throttle(options_.bits_per_second);
    }
    pipes_[peer] = std::make_unique<StreamPipe>(std::move(data), sent_bytes_);
    message_pipes_[peer] = std::make_unique<StreamPipe>(std::move(messages), sent_bytes_);
  }
  if (local.size() == 1) return;
  const auto own = static_cast<std::uint32_t>(std::ranges::lower_bound(local, rank()) - local.begin());
  local_ = std::make_unique<LocalGroup>(own, std::move(sockets), options_.deadline);
  for (std::uint32_t i = 0; i < local.size(); ++i) {
    if (i == own) continue;
    pipes_[local[i]] = local_->make_pipe(i, LocalGroup::Use::kCollectives);
    message_pipes_[local[i]] = local_->make_pipe(i, LocalGroup::Use::kMessages);
  }
}

std::string Mesh::transport() const {
  if (size() == 1) return "alone";
  if (!local_) return network_kind_;
  return network_kind_.empty() ? "shm" : "shm+" + network_kind_;
}

void Mesh::check(const OpContext& context) const {
  if (failure_detector_->broken(context.number)) failure_detector_->throw_broken(describe(context.operation));
  if (!context.deadline.passed()) return;
  fail<Timeout>("{} did not end within {:.1f} s (rank {}, view {}); waiting for {}", describe(context.operation),
                static_cast<double>(context.deadline.allowed().count()) / 1000.0, rank(), options_.view,
                failure_detector_->give_up(context.number));
}

std::uint32_t Mesh::local_barrier(const OpContext& context) {
  const std::uint32_t round = local_->arrive();
  const auto ready = [&] { return local_->all_arrived(round); };
  net::Spinner spinner;
  while (!ready()) {
    if (side_work_ && side_work_()) continue;
    if (crowded_) std::this_thread::yield();  // a rank that we wait for may need this very core
    if (spinner.spin()) continue;
    check(context);
    local_->sleep(ready, side_work_ ? 1ms : kSlice);
  }
  return round;
}

bool Mesh::advance(std::span<Transfer> transfers) {
  // Transfers with one peer in one direction share a pipe: a later one waits for the earlier.
  bool complete = true;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    if (transfer.done == transfer.bytes) continue;
    const bool first = std::none_of(
        transfers.begin(), transfers.begin() + static_cast<std::ptrdiff_t>(i), [&](const Transfer& earlier) {
          return earlier.peer == transfer.peer && earlier.outgoing == transfer.outgoing && earlier.done < earlier.bytes;
        });
    if (first) {
      const MutableBytes rest(transfer.data + transfer.done, std::min(kTurnBytes, transfer.bytes - transfer.done));
      transfer.done += transfer.outgoing ? pipe(transfer.peer).try_send(rest) : pipe(transfer.peer).try_recv(rest);
    }
    complete = complete && transfer.done == transfer.bytes;
  }
  return complete;
}

void Mesh::exchange(std::span<Transfer> transfers, const OpContext& context, std::span<Transfer> others) {
  net::Spinner spinner;
  std::size_t before = bytes_done(transfers) + bytes_done(others);
  for (;;) {
    advance(others);
    if (advance(transfers)) return;
    const std::size_t now = bytes_done(transfers) + bytes_done(others);
    if (now == before) {
      idle(transfers, others, context, spinner);
    } else {
      before = now;
      spinner.reset();
    }
  }
}

void Mesh::idle(std::span<Transfer> transfers, std::span<Transfer> others, const OpContext& context,
                net::Spinner& spinner) {
  if (side_work_ && side_work_()) return;
  if (crowded_) std::this_thread::yield();
  if (spinner.spin()) return;
  check(context);
  std::vector<pollfd> descriptors;
  bool shared_memory = false;
  for (const std::span<const Transfer> list : {transfers, others}) {
    for (const Transfer& transfer : list) {
      if (transfer.done == transfer.bytes) continue;
      const int descriptor = pipe(transfer.peer).descriptor();
      if (descriptor < 0) {
        shared_memory = true;
      } else {
        descriptors.push_back({descriptor, static_cast<short>(transfer.outgoing ? POLLOUT : POLLIN), 0});
      }
    }
  }
  // A doorbell cannot be polled: if both kinds are awaited, check the memory often.
  const auto slice = (shared_memory && !descriptors.empty()) || side_work_ ? 1ms : kSlice;
  if (descriptors.empty()) {
    const std::size_t before = bytes_done(transfers) + bytes_done(others);
    local_->sleep(
        [&] {
          advance(others);
          return advance(transfers) || bytes_done(transfers) + bytes_done(others) != before;
        },
        slice);
  } else {
    ::poll(descriptors.data(), descriptors.size(), static_cast<int>(slice.count()));
  }
}

}  // namespace trireme::collective
