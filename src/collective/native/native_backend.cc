#include "collective/native/native_backend.h"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "collective/engine_support.h"
#include "collective/reduction.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kMaxTrailer = std::max<std::size_t>(kOneShotBytes, 2 * sizeof(std::uint64_t) * 4096);

/// Returns whether small data of this operation is sent along with the call.
bool travels_with_call(const Operation& operation, Rank rank) {
  switch (operation.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kAllGather:
      return true;
    case OperationKind::kBroadcast:
      return operation.root == rank;
    default:
      return false;
  }
}

/// Returns the size that decides about the algorithm: the same on all ranks.
std::size_t deciding_bytes(const Operation& operation) {
  if (operation.kind != OperationKind::kAllGather) return operation.in.size_bytes();
  return *std::ranges::max_element(operation.out_counts) * size_of(operation.out.dtype);
}

/// Runs an operation of a group of one rank.
void run_alone(const Operation& operation) {
  if (operation.kind == OperationKind::kBarrier) return;
  const bool average = operation.reduce.op == ReduceOp::kAverage && !operation.reduce.lanes.empty();
  copy_bytes(operation.out.data, operation.in.data, operation.out.size_bytes());
  if (average)
    divide(operation.out.dtype, operation.out.data, operation.out.count, operation.reduce.lanes.back().end());
}

}  // namespace

NativeBackend::NativeBackend(Endpoint& endpoint, MeshOptions options, bool trace_algorithms)
    : mesh_(endpoint, std::move(options)),
      messages_(mesh_),
      topology_{.ranks = mesh_.size(), .hosts = mesh_.hosts()},
      trace_algorithms_(trace_algorithms) {}

void NativeBackend::run(const Operation& operation, Deadline deadline) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  if (size() == 1) return run_alone(operation);
  const OpContext context{.operation = operation, .number = ++collectives_, .deadline = deadline};
  mesh_.failure_detector().set_begun(collectives_);
  try {
    collect_calls(operation, context);
    compare(operation, records_);
    move(operation, context, records_);
    mesh_.failure_detector().set_finished(collectives_);
  } catch (const InvalidArgument&) {  // all ranks have reached it
    mesh_.failure_detector().set_finished(collectives_);
    throw;
  } catch (const PeerLost&) {
    // A rank that gave up because of another's death also closes its connections: the failure detector knows the first.
    if (mesh_.failure_detector().wait_broken()) mesh_.failure_detector().throw_broken(describe(operation));
    throw;
  }
}

bool NativeBackend::one_shot(const Operation& operation) const {
  if (deciding_bytes(operation) > kOneShotBytes) return false;
  if (operation.kind != OperationKind::kAllReduce) return true;
  // An impossible request is rejected only after the calls were compared, so that no rank is left waiting.
  if (operation.reduce.algorithm != Algorithm::kAuto) return operation.reduce.algorithm == Algorithm::kOneShot;
  return choose_all_reduce(topology_, operation.reduce, mesh_.lanes(operation), operation.in.size_bytes(), false)
             .algorithm == Algorithm::kOneShot;
}

Bytes NativeBackend::make_trailer(const Operation& operation) {
  trailer_.clear();
  if (operation.kind == OperationKind::kAllToAll) {
    trailer_.resize(2 * size() * sizeof(std::uint64_t));
    auto* numbers = reinterpret_cast<std::uint64_t*>(trailer_.data());
    std::ranges::copy(operation.in_counts, numbers);
    std::ranges::copy(operation.out_counts, numbers + size());
    return trailer_;
  }
  const bool along = travels_with_call(operation, rank()) && one_shot(operation);
  return along ? operation.in.bytes() : Bytes();
}

void NativeBackend::collect_calls(const Operation& operation, const OpContext& context) {
  CallRecords& records = records_;
  CallSignature call = make_call(operation, collectives_);
  if (LocalGroup* group = mesh_.local()) {
    const std::uint32_t round = group->next_round();
    if (operation.kind == OperationKind::kAllReduce && operation.in.data == operation.out.data) {
      std::tie(call.segment, call.offset) = group->locate(operation.in.data, operation.in.size_bytes());
    }
    if (operation.kind == OperationKind::kAllToAll) {
      const auto table = group->table(group->index(), round);
      if (table.size() < 2 * std::size_t{size()}) {
        fail<InvalidArgument>(
            "all_to_all among {} ranks, of which some share memory: at most {} are possible; use "
            "--transport tls",
            size(), table.size() / 2);
      }
      std::ranges::copy(operation.in_counts, table.begin());
      std::ranges::copy(operation.out_counts, table.begin() + size());
    }
    if (operation.kind == OperationKind::kAllReduce && topology_.one_host() && one_shot(operation)) {
      copy_bytes(group->stage(group->index(), round), operation.in.data, operation.in.size_bytes());
    }
    group->call(group->index(), round) = call;
  }
  records.calls.resize(size());
  records.calls[rank()] = call;
  if (!topology_.one_host()) {
    records.trailers.resize(size());
    const Bytes trailer = make_trailer(operation);
    call.trailer = static_cast<std::uint32_t>(trailer.size());
    std::vector<Transfer> transfers;
    for (Rank peer = 0; peer < size(); ++peer) {
      if (std::ranges::binary_search(mesh_.local_ranks(), peer)) continue;
      transfers.push_back(outgoing(peer, std::as_bytes(std::span(&call, 1))));
      transfers.push_back(outgoing(peer, trailer));
      transfers.push_back(incoming(peer, std::as_writable_bytes(std::span(&records.calls[peer], 1))));
    }
    mesh_.exchange(transfers, context);
    transfers.clear();
    for (Rank peer = 0; peer < size(); ++peer) {
      // Of the ranks on this host, whose calls are not here yet, nothing comes over the network.
      const bool local = std::ranges::binary_search(mesh_.local_ranks(), peer);
      const std::uint32_t bytes = local ? 0 : records.calls[peer].trailer;
      if (bytes > kMaxTrailer) fail<Corrupt>("rank {} announces {} bytes with its call", peer, bytes);
      records.trailers[peer].resize(bytes);
      transfers.push_back(incoming(peer, records.trailers[peer]));
    }
    mesh_.exchange(transfers, context);
  }
  if (LocalGroup* group = mesh_.local()) {
    records.round = mesh_.local_barrier(context);
    const auto& local = mesh_.local_ranks();
    for (std::uint32_t i = 0; i < group->count(); ++i) records.calls[local[i]] = group->call(i, records.round);
  }
}

void NativeBackend::compare(const Operation& operation, CallRecords& records) {
  agree(rank(), records.calls);
  if (!topology_.one_host()) check_trailers(operation, records);
  if (operation.kind != OperationKind::kAllToAll) return;
  records.parts.clear();
  for (Rank peer = 0; peer < size(); ++peer) {
    const auto theirs = parts_shown_by(peer, records);
    records.parts.insert(records.parts.end(), theirs.begin(), theirs.end());
  }
  agree_on_parts(operation, records.parts, size());
}

/// What came with the calls is read and copied by the sizes of our own call: those of the peers must be the same.
void NativeBackend::check_trailers(const Operation& operation, const CallRecords& records) const {
  const bool along = operation.kind != OperationKind::kAllToAll && one_shot(operation);
  for (Rank peer = 0; peer < size(); ++peer) {
    if (std::ranges::binary_search(mesh_.local_ranks(), peer)) continue;
    std::size_t expected = along && travels_with_call(operation, peer) ? operation.in.size_bytes() : 0;
    if (operation.kind == OperationKind::kAllToAll) expected = 2 * sizeof(std::uint64_t) * size();
    if (along && operation.kind == OperationKind::kAllGather) {
      expected = operation.out_counts[peer] * size_of(operation.out.dtype);
    }
    const std::size_t came = records.trailers[peer].size();
    if (came == expected) continue;
    fail<Corrupt>("rank {} sends {} bytes with its {} where {} are due: it is broken, or another version", peer, came,
                  describe(operation), expected);
  }
}

/// Returns what a rank has shown beside its call of an all_to_all: in shared memory, or over the network.
std::span<const std::uint64_t> NativeBackend::parts_shown_by(Rank peer, const CallRecords& records) {
  const std::size_t numbers = 2 * std::size_t{size()};
  const auto& local = mesh_.local_ranks();
  const auto place = std::ranges::lower_bound(local, peer);
  if (mesh_.local() != nullptr && place != local.end() && *place == peer) {
    return mesh_.local()->table(static_cast<std::uint32_t>(place - local.begin()), records.round).first(numbers);
  }
  const std::vector<std::byte>& sent = peer == rank() ? trailer_ : records.trailers[peer];
  return {reinterpret_cast<const std::uint64_t*>(sent.data()), numbers};
}

RankGroup NativeBackend::everybody(const Operation& operation, const OpContext& context) {
  RankGroup group{.mesh = mesh_, .ranks = {}, .lanes = mesh_.lanes(operation), .self = rank(), .context = context};
  for (Rank peer = 0; peer < size(); ++peer) group.ranks.push_back(peer);
  return group;
}

void NativeBackend::move(const Operation& operation, const OpContext& context, const CallRecords& records) {
  switch (operation.kind) {
    case OperationKind::kBarrier:
      return;
    case OperationKind::kAllReduce:
      return all_reduce(operation, context, records);
    default:
      return topology_.one_host() ? move_locally(operation, context, records)
                                  : move_anywhere(operation, context, records);
  }
}

void NativeBackend::all_reduce(const Operation& operation, const OpContext& context, const CallRecords& records) {
  const std::size_t bytes = operation.in.size_bytes();
  const bool shared = std::ranges::all_of(records.calls, [](const CallSignature& call) { return call.segment != 0; });
  const Choice choice = choose_all_reduce(topology_, operation.reduce, mesh_.lanes(operation), bytes, shared);
  if (trace_algorithms_) trace(operation, bytes, choice);
  if (bytes == 0) return;
  switch (choice.algorithm) {
    case Algorithm::kOneShot: {
      if (topology_.one_host()) return shared_memory::all_reduce_one_shot(mesh_, operation, records.round);
      const auto lanes = mesh_.lanes(operation);
      std::vector<Contribution> parts(size());
      for (Rank peer = 0; peer < size(); ++peer) {
        parts[peer] = {lanes[peer], peer == rank() ? operation.in.data : records.trailers[peer].data()};
      }
      return collective::reduce(operation.in.dtype, operation.reduce.op, lanes.back().end(), parts, operation.in.count,
                                operation.out.data, lanes.back().end());
    }
    case Algorithm::kInPlace:
      return shared_memory::all_reduce_in_place(mesh_, operation, context, records.calls);
    case Algorithm::kDirect:
      if (topology_.one_host()) return shared_memory::all_reduce_direct(mesh_, operation, context);
      return network::all_reduce_direct(everybody(operation, context), operation);
    case Algorithm::kTree:
      return network::all_reduce_tree(everybody(operation, context), operation);
    case Algorithm::kHalvingDoubling:
      return network::all_reduce_halving_doubling(everybody(operation, context), operation);
    case Algorithm::kRing:
      return network::all_reduce_ring(everybody(operation, context), operation);
    case Algorithm::kHierarchical:
      return all_reduce_hierarchical(mesh_, operation, context);
    case Algorithm::kAuto:
      break;
  }
  TRIREME_CHECK(false, "no algorithm was chosen");
}

void NativeBackend::move_locally(const Operation& operation, const OpContext& context, const CallRecords& records) {
  switch (operation.kind) {
    case OperationKind::kReduceScatter:
      return shared_memory::reduce_scatter(mesh_, operation, context);
    case OperationKind::kAllGather:
      return shared_memory::all_gather(mesh_, operation, context);
    case OperationKind::kBroadcast:
      return shared_memory::broadcast(mesh_, operation, context);
    case OperationKind::kReduce:
      return shared_memory::reduce(mesh_, operation, context);
    case OperationKind::kGather:
      return shared_memory::gather(mesh_, operation, context);
    case OperationKind::kScatter:
      return shared_memory::scatter(mesh_, operation, context);
    case OperationKind::kAllToAll:
      return shared_memory::all_to_all(mesh_, operation, context, *std::ranges::max_element(records.parts));
    default:
      TRIREME_CHECK(false, "{} is not a collective", name_of(operation.kind));
  }
}

void NativeBackend::move_anywhere(const Operation& operation, const OpContext& context, const CallRecords& records) {
  const RankGroup group = everybody(operation, context);
  // Ranks of one host send no trailers: small data came along only if no ranks share memory.
  const bool came_along = topology_.no_shared_memory() && one_shot(operation);
  switch (operation.kind) {
    case OperationKind::kReduceScatter:
      return network::reduce_scatter(group, operation);
    case OperationKind::kAllGather: {
      if (!came_along) return network::all_gather(group, operation);
      const std::vector<std::size_t> at = positions(operation.out_counts);
      for (Rank peer = 0; peer < size(); ++peer) {
        const Bytes part = peer == rank() ? operation.in.bytes() : Bytes(records.trailers[peer]);
        copy_bytes(operation.out.data + at[peer] * size_of(operation.out.dtype), part.data(), part.size());
      }
      return;
    }
    case OperationKind::kBroadcast:
      if (!came_along) return network::broadcast(group, operation);
      if (operation.root != rank()) {
        copy_bytes(operation.out.data, records.trailers[operation.root].data(), operation.out.size_bytes());
      }
      return;
    case OperationKind::kReduce:
      return network::reduce(group, operation);
    case OperationKind::kGather:
      return network::gather(group, operation);
    case OperationKind::kScatter:
      return network::scatter(group, operation);
    case OperationKind::kAllToAll:
      return network::all_to_all(group, operation);
    default:
      TRIREME_CHECK(false, "{} is not a collective", name_of(operation.kind));
  }
}

void NativeBackend::trace(const Operation& operation, std::size_t bytes, const Choice& choice) {
  const auto [known, inserted] = traced_.try_emplace(std::bit_width(bytes), choice.algorithm);
  if (!inserted && std::exchange(known->second, choice.algorithm) == choice.algorithm) return;
  if (rank() != 0) return;
  log_info("algorithm_chosen", "chose an algorithm",
           {{"operation", describe(operation)},
            {"bytes", bytes},
            {"algorithm", std::string(name_of(choice.algorithm))},
            {"reason", std::string(choice.reason)}});
}

void NativeBackend::post(const Operation& operation, Deadline deadline, Done done) {
  operations_.fetch_add(1, std::memory_order_relaxed);
  messages_.post(operation, deadline, std::move(done));
  mesh_.set_side_work([this] {
    const bool moved = messages_.advance();
    messages_.check();
    return moved;
  });
}

bool NativeBackend::progress() {
  net::Spinner spinner;
  while (!messages_.empty()) {
    if (messages_.advance()) return true;
    if (spinner.spin()) continue;
    messages_.check();
    const std::vector<int> waiting = messages_.descriptors();
    std::vector<pollfd> descriptors;
    for (const int descriptor : waiting) descriptors.push_back({descriptor, POLLIN, 0});
    if (descriptors.empty() && mesh_.local() != nullptr) {
      mesh_.local()->sleep([this] { return woken_.exchange(false) || messages_.advance(); }, 5ms);
    } else if (!woken_.exchange(false)) {
      descriptors.push_back({doorbell_.descriptor(), POLLIN, 0});
      ::poll(descriptors.data(), descriptors.size(), 1);
      doorbell_.silence();
    }
    return true;
  }
  mesh_.set_side_work(nullptr);
  return false;
}

void NativeBackend::wake() {
  woken_ = true;
  if (mesh_.local() != nullptr) mesh_.local()->ring(mesh_.local()->index());
  if (!topology_.one_host()) doorbell_.ring();
}

std::shared_ptr<std::byte> NativeBackend::allocate(std::size_t bytes, Deadline deadline) {
  if (LocalGroup* group = mesh_.local()) {
    try {
      return group->allocate(bytes, deadline, [this] {
        if (mesh_.failure_detector().broken()) mesh_.failure_detector().throw_broken("an allocation of shared memory");
      });
    } catch (const PeerLost&) {
      if (mesh_.failure_detector().wait_broken())
        mesh_.failure_detector().throw_broken("an allocation of shared memory");
      throw;
    }
  }
  const auto segment = net::Segment::create("trireme-private", bytes);
  return {segment, segment->bytes().data()};
}

std::vector<Rank> NativeBackend::behind() const {
  return mesh_.size() == 1 ? std::vector<Rank>() : mesh_.failure_detector().behind();
}

void NativeBackend::abort(const std::string& reason) { mesh_.failure_detector().abort(reason); }

Traffic NativeBackend::traffic() const {
  return {.operations = operations_.load(std::memory_order_relaxed),
          .sent_bytes = mesh_.sent_bytes(),
          .shared_bytes = const_cast<Mesh&>(mesh_).shared_bytes().load(std::memory_order_relaxed)};
}

}  // namespace trireme::collective
