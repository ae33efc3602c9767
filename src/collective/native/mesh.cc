#include "collective/native/mesh.h"

#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/error.h"

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

Mesh::Mesh(Endpoint& endpoint, MeshOptions options) : options_(std::move(options)) {
  TRIREME_CHECK(options_.rank < options_.members.size(), "rank {} of {}", options_.rank, options_.members.size());
  endpoint.enter_view(options_.view);
  find_hosts();
  connect(endpoint);
}

void Mesh::find_hosts() {
  const bool share = options_.bits_per_second == 0 &&
                     (options_.transport == net::Transport::kAuto || options_.transport == net::Transport::kShm);
  std::vector<std::string> ids;
  for (Rank rank = 0; rank < size(); ++rank) {
    const net::Address& address = options_.members[rank];
    single_lanes_.push_back({rank, 1});
    const std::string id =
        share && !address.unix_name.empty() ? address.host_id : fmt::format("rank {} by itself", rank);
    const auto known = std::ranges::find(ids, id);
    if (rank == options_.rank) own_host_ = static_cast<std::size_t>(known - ids.begin());
    if (known == ids.end()) {
      ids.push_back(id);
      hosts_.push_back({rank});
    } else {
      hosts_[static_cast<std::size_t>(known - ids.begin())].push_back(rank);
    }
  }
  crowded_ = local_ranks().size() > std::thread::hardware_concurrency();
}

void Mesh::connect(Endpoint& endpoint) {
  const std::vector<Rank>& local = local_ranks();
  std::vector<std::unique_ptr<net::RawStream>> sockets(local.size());
  std::vector<FailureDetector::Peer> watched;
  pipes_.resize(size());
  message_pipes_.resize(size());

  const auto link = [&](Rank peer) {
    const bool calls = peer < rank();  // the higher rank connects, so that no two ranks wait for each other
    const bool shares = std::ranges::binary_search(local, peer);
    const net::Transport transport =
        shares ? net::Transport::kShm : net::network_transport(options_.transport, options_.members[peer]);
    const auto open = [&](Purpose purpose) {
      const LinkName name{.view = options_.view,
                          .group = options_.group,
                          .from = std::max(rank(), peer),
                          .to = std::min(rank(), peer),
                          .purpose = purpose};
      if (calls) {
        try {
          return endpoint.connect(options_.members[peer], name, transport, options_.deadline);
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
    };
    const net::RawStream::Side side = calls ? net::RawStream::Side::kConnected : net::RawStream::Side::kAccepted;
    watched.push_back({peer, open(Purpose::kHeartbeat)});
    net::RawStream data(open(Purpose::kData), side, options_.deadline);
    if (shares) {
      const auto index = std::ranges::lower_bound(local, peer) - local.begin();
      sockets[static_cast<std::size_t>(index)] = std::make_unique<net::RawStream>(std::move(data));
      return;
    }
    network_kind_ = data.kind();
    net::RawStream messages(open(Purpose::kPeer), side, options_.deadline);
    if (options_.bits_per_second > 0) {
      data.throttle(options_.bits_per_second);
      messages.throttle(options_.bits_per_second);
    }
    pipes_[peer] = std::make_unique<StreamPipe>(std::move(data), sent_bytes_);
    message_pipes_[peer] = std::make_unique<StreamPipe>(std::move(messages), sent_bytes_);
  };
  for (Rank peer = 0; peer < rank(); ++peer) link(peer);
  for (Rank peer = rank() + 1; peer < size(); ++peer) link(peer);

  if (local.size() > 1) {
    const auto own = static_cast<std::uint32_t>(std::ranges::lower_bound(local, rank()) - local.begin());
    local_ = std::make_unique<LocalGroup>(own, std::move(sockets), options_.deadline);
    for (std::uint32_t i = 0; i < local.size(); ++i) {
      if (i == own) continue;
      pipes_[local[i]] = local_->make_pipe(i, LocalGroup::Use::kCollectives);
      message_pipes_[local[i]] = local_->make_pipe(i, LocalGroup::Use::kMessages);
    }
  }
  failure_detector_ = std::make_unique<FailureDetector>(
      rank(), std::move(watched), options_.silent_after,
      [&endpoint, members = options_.members](Rank silent) { endpoint.note_unreachable(members[silent]); });
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
