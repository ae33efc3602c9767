#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/backend.h"
#include "collective/native/byte_pipe.h"
#include "collective/native/endpoint.h"
#include "collective/native/failure_detector.h"
#include "collective/native/local_group.h"
#include "net/shm/spin.h"

namespace trireme::collective {

struct MeshOptions {
  Rank rank = 0;
  View view = 1;
  std::vector<net::Address> members;
  std::string group = "all";
  net::Transport transport = net::Transport::kAuto;
  std::uint64_t bits_per_second = 0;  ///< 0 = no limit
  Deadline deadline = Deadline::in(30s);
  std::chrono::milliseconds silent_after{0};  ///< see FailureDetector
};

/// Bytes to or from one rank: part of an exchange.
struct Transfer {
  Rank peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool outgoing = false;
  std::size_t done = 0;
};

inline Transfer outgoing(Rank peer, Bytes bytes) {
  return {.peer = peer, .data = const_cast<std::byte*>(bytes.data()), .bytes = bytes.size(), .outgoing = true};
}
inline Transfer incoming(Rank peer, MutableBytes bytes) {
  return {.peer = peer, .data = bytes.data(), .bytes = bytes.size()};
}

/// What a wait is for: its deadline, and the text of its error.
struct OpContext {
  const Operation& operation;
  std::uint64_t number;  ///< of the collective
  Deadline deadline;
};

/// One rank's connections to all others of a view, and how it waits for them. Not thread-safe, except for the failure
/// detector and the byte counters.
class Mesh {
 public:
  /// Connects to all ranks; blocks. Throws Timeout (naming those missing), PeerLost, StaleView, Unauthenticated.
  Mesh(Endpoint& endpoint, MeshOptions options);

  Rank rank() const { return options_.rank; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(options_.members.size()); }

  /// Returns the ranks of each host, ascending; hosts in the order of their first ranks. Ranks that do not share memory
  /// count as hosts of their own.
  const std::vector<std::vector<Rank>>& hosts() const { return hosts_; }
  const std::vector<Rank>& local_ranks() const { return hosts_[own_host_]; }

  /// Returns the lanes of which each rank's values are a partial sum in this operation.
  std::span<const LaneRange> lanes(const Operation& operation) const {
    return operation.reduce.lanes.empty() ? std::span<const LaneRange>(single_lanes_) : operation.reduce.lanes;
  }

  /// Returns the memory shared with the other ranks of this host; nullptr if there are none.
  LocalGroup* local() { return local_.get(); }

  Pipe& pipe(Rank peer) { return *pipes_[peer]; }                  ///< for collectives
  Pipe& message_pipe(Rank peer) { return *message_pipes_[peer]; }  ///< for send and recv

  FailureDetector& failure_detector() { return *failure_detector_; }
  const FailureDetector& failure_detector() const { return *failure_detector_; }
  std::string transport() const;

  std::atomic<std::uint64_t>& shared_bytes() { return shared_bytes_; }
  std::uint64_t sent_bytes() const { return sent_bytes_.load(std::memory_order_relaxed); }

  /// Sets a function that is called in every wait, to advance other operations (send and recv); returns whether
  /// anything moved. Empty = none.
  void set_side_work(std::function<bool()> work) { side_work_ = std::move(work); }

  /// Enters the next round of this host's ranks and waits for all of them. Returns its number.
  std::uint32_t local_barrier(const OpContext& context);

  /// Carries out all transfers, in any order; those with one peer in one direction in the order given. `others` make
  /// progress meanwhile, but are not waited for.
  void exchange(std::span<Transfer> transfers, const OpContext& context, std::span<Transfer> others = {});

  /// Moves what it can of `transfers` without waiting; returns true when all are complete.
  bool advance(std::span<Transfer> transfers);

  /// Call it when no transfer moved: spins or sleeps briefly. Throws PeerLost, Timeout.
  void idle(std::span<Transfer> transfers, std::span<Transfer> others, const OpContext& context, net::Spinner& spinner);

  /// Throws PeerLost if the group is broken, Timeout if the deadline has passed.
  void check(const OpContext& context) const;

 private:
  struct Links;

  /// Whether two ranks may share memory, as far as their addresses tell.
  bool may_share(Rank one, Rank other) const;
  bool calls(Rank peer) const { return peer < rank(); }  ///< the higher rank connects: no two wait for each other
  net::AuthenticatedStream open(Endpoint& endpoint, Rank peer, Purpose purpose, net::Transport transport) const;
  net::RawStream open_raw(Endpoint& endpoint, Rank peer, Purpose purpose, bool shared) const;
  Links connect(Endpoint& endpoint) const;
  void find_hosts(Links& links);
  void make_pipes(Endpoint& endpoint, Links& links);

  MeshOptions options_;
  std::vector<std::vector<Rank>> hosts_;
  std::vector<LaneRange> single_lanes_;  // rank i holds lane i
  std::size_t own_host_ = 0;
  bool crowded_ = false;  // more ranks than cores on this host
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> shared_bytes_{0};
  std::string network_kind_;  // "tcp", "tls", or empty
  std::unique_ptr<LocalGroup> local_;
  std::vector<std::unique_ptr<Pipe>> pipes_;          // by rank
  std::vector<std::unique_ptr<Pipe>> message_pipes_;  // by rank
  std::unique_ptr<FailureDetector> failure_detector_;
  std::function<bool()> side_work_;
};

}  // namespace trireme::collective
