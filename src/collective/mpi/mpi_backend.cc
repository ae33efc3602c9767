#include "collective/mpi/mpi_backend.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "collective/choice.h"
#include "collective/engine_support.h"
#include "collective/mpi/mpi_arithmetic.h"
#include "collective/mpi/mpi_messages.h"
#include "collective/mpi/mpi_transport.h"
#include "collective/rank_group.h"
#include "net/shm/segment.h"

namespace trireme::collective {
namespace {

constexpr std::size_t kBlockBytes = 16u << 20;      // of an array that is reduced at a time: limits staging memory
constexpr std::size_t kOneShotTotal = 1u << 20;     // of all ranks together
constexpr std::size_t kPieceElements = 128u << 20;  // passed to MPI at a time

/// Returns how far the arrays are from the alignment of their type.
std::size_t misalignment(const Operation& operation) {
  const auto address = reinterpret_cast<std::uintptr_t>(operation.in.data);
  const auto other = reinterpret_cast<std::uintptr_t>(operation.out.data);
  return (address | other) % size_of(operation.in.dtype);
}

/// Returns the bytes of each rank's part of an array.
template <typename SomeArray>
auto parts(const SomeArray& array, const std::vector<std::size_t>& counts) {
  return [&array, &counts, at = positions(counts), element = size_of(array.dtype)](Rank peer) {
    return array.bytes().subspan(at[peer] * element, counts[peer] * element);
  };
}

class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(Deadline deadline) : transport_(deadline), messages_(transport_) {
    transport_.set_side_work([this] { messages_.advance(); });
  }

  Rank rank() const override { return transport_.rank(); }
  std::uint32_t size() const override { return transport_.size(); }
  std::string transport() const override { return "mpi"; }

  void run(const Operation& operation, Deadline deadline) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    if (transport_.aborted()) transport_.throw_aborted(describe(operation));
    const OpContext context{.operation = operation, .number = ++collectives_, .deadline = deadline};
    wait_for_all(context);
    move(context);
  }

  void post(const Operation& operation, Deadline deadline, Done done) override {
    operations_.fetch_add(1, std::memory_order_relaxed);
    messages_.post(operation, deadline, std::move(done));
  }

  bool progress() override {
    wait_until([this] { return messages_.empty() || messages_.advance(); }, Deadline::in(2ms));
    return !messages_.empty();
  }

  std::shared_ptr<std::byte> allocate(std::size_t bytes, Deadline /*deadline*/) override {
    const auto segment = net::Segment::create("trireme-private", bytes);
    return {segment, segment->bytes().data()};
  }

  void abort(const std::string& reason) override { transport_.abort(reason); }

  Traffic traffic() const override {
    return {.operations = operations_.load(std::memory_order_relaxed), .sent_bytes = transport_.sent_bytes()};
  }

 private:
  /// Gathers the same number of `bytes` from each rank into memory of ours.
  std::shared_ptr<std::vector<std::byte>> show(Bytes bytes, const OpContext& context) {
    const auto all = std::make_shared<std::vector<std::byte>>(bytes.size() * (size() + 1));
    std::byte* own = all->data() + bytes.size() * size();  // after those of the ranks: MPI forbids overlap
    copy_bytes(own, bytes.data(), bytes.size());
    Requests requests{.open = {MPI_REQUEST_NULL}, .peers = {}, .memory = all};
    const int count = static_cast<int>(bytes.size());
    MpiTransport::check(
        MPI_Iallgather(own, count, MPI_BYTE, all->data(), count, MPI_BYTE, transport_.all(), requests.open.data()),
        "MPI_Iallgather");
    transport_.count_sent(bytes.size());
    transport_.wait(requests, context);
    return all;
  }

  /// Shows this rank's call to all ranks. Throws InvalidArgument on all of them if they do not agree.
  void wait_for_all(const OpContext& context) {
    const Operation& operation = context.operation;
    CallSignature call = make_call(operation, context.number);
    call.offset = misalignment(operation);  // unused otherwise: there are no segments here
    const auto shown = show(std::as_bytes(std::span(&call, 1)), context);
    calls_.resize(size());
    std::memcpy(calls_.data(), shown->data(), size() * sizeof(CallSignature));
    agree(rank(), calls_);
    if (operation.kind != OperationKind::kAllToAll) return;
    const auto parts = parts_of(operation);
    const auto all_parts = show(std::as_bytes(std::span(parts)), context);
    agree_on_parts(operation, {reinterpret_cast<const std::uint64_t*>(all_parts->data()), parts.size() * size()},
                   size());
  }

  void move(const OpContext& context) {
    switch (context.operation.kind) {
      case OperationKind::kBarrier:
        return;
      case OperationKind::kAllReduce:
        return all_reduce(context);
      case OperationKind::kReduce:
        return reduce(context);
      case OperationKind::kReduceScatter:
        return reduce_scatter(context);
      case OperationKind::kAllGather:
        return all_gather(context);
      case OperationKind::kBroadcast:
        return broadcast(context);
      case OperationKind::kGather:
        return gather(context);
      case OperationKind::kScatter:
        return scatter(context);
      case OperationKind::kAllToAll:
        return all_to_all(context);
      case OperationKind::kSend:
      case OperationKind::kRecv:
        TRIREME_CHECK(false, "{} is not a collective", name_of(context.operation.kind));
    }
  }

  /// Returns all other ranks, starting after this one, so that not all send to the same rank first.
  std::vector<Rank> others() const {
    std::vector<Rank> ranks;
    for (std::uint32_t step = 1; step < size(); ++step) ranks.push_back((rank() + step) % size());
    return ranks;
  }

  MutableBytes stage(std::size_t bytes) {
    if (bytes > staging_bytes_) {
      staging_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      staging_bytes_ = bytes;
    }
    return {staging_.get(), bytes};
  }

  /// `part(i)` is this rank's contribution to rank i; reduces all contributions to this rank into `out`.
  template <typename PartFor>
  void reduce_parts(const OpContext& context, std::byte* out, PartFor part) {
    const Bytes own = part(rank());
    const MutableBytes staging = stage(own.size() * size());
    std::vector<Transfer> transfers;
    const auto lanes = lanes_of(context.operation, size());
    std::vector<Contribution> contributions(size());
    contributions[rank()] = {lanes[rank()], own.data()};
    for (const Rank peer : others()) {
      const MutableBytes place = staging.subspan(peer * own.size(), own.size());
      transfers.push_back(incoming(peer, place));
      transfers.push_back(outgoing(peer, part(peer)));
      contributions[peer] = {lanes[peer], place.data()};
    }
    transport_.exchange(transfers, context);
    combine_all(context.operation, contributions, own.size(), out);
  }

  static void combine_all(const Operation& operation, std::span<const Contribution> contributions, std::size_t bytes,
                          std::byte* out) {
    if (bytes == 0) return;
    const Lane lanes = contributions.back().lanes.end();
    collective::reduce(operation.in.dtype, operation.reduce.op, lanes, contributions,
                       bytes / size_of(operation.in.dtype), out, lanes);
  }

  bool one_shot(const Operation& operation) const {
    const std::size_t bytes = operation.in.size_bytes();
    switch (operation.reduce.algorithm) {
      case Algorithm::kAuto:
        return bytes <= kOneShotBytes && bytes * size() <= kOneShotTotal;
      case Algorithm::kOneShot:
        if (bytes <= kOneShotBytes) return true;
        fail<InvalidArgument>("all_reduce by one-shot is not possible here: {} bytes are more than {}", bytes,
                              kOneShotBytes);
      case Algorithm::kDirect:
        return false;
      default:
        fail<InvalidArgument>("all_reduce by {} is not possible here: the MPI engine knows auto, one-shot and direct",
                              name_of(operation.reduce.algorithm));
    }
  }

  // Small data: all ranks get everything and reduce it. Otherwise each rank reduces a slice and gives it to all.
  void all_reduce(const OpContext& context) {
    const Operation& operation = context.operation;
    const bool small = one_shot(operation);
    if (operation.in.count == 0) return;
    if (const auto theirs = theirs_can(operation)) return all_reduce_by_mpi(context, *theirs);
    const std::size_t bytes = operation.in.size_bytes();
    if (small) {
      const auto all = show(operation.in.bytes(), context);
      const auto lanes = lanes_of(operation, size());
      std::vector<Contribution> contributions;
      for (Rank peer = 0; peer < size(); ++peer) contributions.push_back({lanes[peer], all->data() + peer * bytes});
      return combine_all(operation, contributions, bytes, operation.out.data);
    }
    for_blocks(operation, [&](std::size_t first, auto slice) {
      const auto to = [&](Rank peer) {
        const auto [at, length] = slice(peer);
        return MutableBytes(operation.out.data + first + at, length);
      };
      reduce_parts(context, to(rank()).data(), [&](Rank peer) {
        const auto [at, length] = slice(peer);
        return Bytes(operation.in.data + first + at, length);
      });
      std::vector<Transfer> transfers;
      for (const Rank peer : others()) {
        transfers.push_back(incoming(peer, to(peer)));
        transfers.push_back(outgoing(peer, to(rank())));
      }
      transport_.exchange(transfers, context);
    });
  }

  // Each rank reduces a slice, and the root collects them.
  void reduce(const OpContext& context) {
    const Operation& operation = context.operation;
    if (operation.in.count == 0) return;
    if (const auto theirs = theirs_can(operation)) return reduce_by_mpi(context, *theirs);
    const bool at_root = rank() == operation.root;
    std::vector<std::byte> sums;
    for_blocks(operation, [&](std::size_t first, auto slice) {
      const auto [own_at, own_length] = slice(rank());
      if (!at_root) sums.resize(own_length);
      const MutableBytes own(at_root ? operation.out.data + first + own_at : sums.data(), own_length);
      reduce_parts(context, own.data(), [&](Rank peer) {
        const auto [at, length] = slice(peer);
        return Bytes(operation.in.data + first + at, length);
      });
      std::vector<Transfer> transfers;
      if (!at_root) transfers.push_back(outgoing(operation.root, own));
      for (const Rank peer : at_root ? others() : std::vector<Rank>()) {
        const auto [at, length] = slice(peer);
        transfers.push_back(incoming(peer, {operation.out.data + first + at, length}));
      }
      transport_.exchange(transfers, context);
    });
  }

  /// Calls `body(first, slice)` for each block of the input: the block starts at byte `first`, and `slice(rank)` is the
  /// part of it that `rank` reduces: its offset in the block, and its length, in bytes.
  template <typename Body>
  void for_blocks(const Operation& operation, Body body) {
    const std::size_t element = size_of(operation.in.dtype);
    const std::size_t block = kBlockBytes / element;
    for (std::size_t first = 0; first < operation.in.count; first += block) {
      const std::size_t count = std::min(block, operation.in.count - first);
      body(first * element, [&](Rank peer) {
        const Part part = part_of(count, element, size(), peer);
        return std::pair(part.first * element, part.count * element);
      });
    }
  }

  void reduce_scatter(const OpContext& context) {
    const Operation& operation = context.operation;
    const std::size_t element = size_of(operation.in.dtype);
    const auto at = positions(operation.in_counts);
    const std::size_t block = kBlockBytes / element;
    const std::size_t most = std::ranges::max(operation.in_counts);
    for (std::size_t first = 0; first < most; first += block) {
      reduce_parts(context, operation.out.data + first * element, [&](Rank peer) {
        const std::size_t count = operation.in_counts[peer];
        const std::size_t begin = std::min(first, count);
        return Bytes(operation.in.data + (at[peer] + begin) * element, std::min(block, count - begin) * element);
      });
    }
  }

  /// Returns MPI's own arithmetic if it is allowed, supported, and possible with the memory of every rank.
  std::optional<MpiArithmetic> theirs_can(const Operation& operation) const {
    const bool aligned = std::ranges::all_of(calls_, [](const CallSignature& call) { return call.offset == 0; });
    if (!operation.reduce.any_order || !aligned || operation.reduce.algorithm != Algorithm::kAuto) return {};
    return arithmetic_in_mpi(operation.in.dtype, operation.reduce.op);
  }

  /// Calls `begin(in, out, count, request)` for pieces small enough for MPI's counts, then waits for all of them.
  template <typename Begin>
  void by_mpi(const OpContext& context, Begin begin) {
    const Operation& operation = context.operation;
    const std::size_t element = size_of(operation.in.dtype);
    Requests requests;
    for (std::size_t first = 0; first < operation.in.count; first += kPieceElements) {
      const int count = static_cast<int>(std::min(kPieceElements, operation.in.count - first));
      const bool receives = operation.kind == OperationKind::kAllReduce || rank() == operation.root;
      const bool in_place = receives && operation.in.data == operation.out.data;
      const void* in = in_place ? MPI_IN_PLACE : operation.in.data + first * element;
      void* out = operation.out.data == nullptr ? nullptr : operation.out.data + first * element;
      MPI_Request& request = requests.open.emplace_back(MPI_REQUEST_NULL);
      MpiTransport::check(begin(in, out, count, &request), "MPI's reduction");
    }
    transport_.count_sent(operation.in.size_bytes());
    transport_.wait(requests, context);
  }

  void all_reduce_by_mpi(const OpContext& context, const MpiArithmetic& theirs) {
    by_mpi(context, [&](const void* in, void* out, int count, MPI_Request* request) {
      return MPI_Iallreduce(in, out, count, theirs.type, theirs.op, transport_.all(), request);
    });
    finish_average(context.operation);
  }

  void reduce_by_mpi(const OpContext& context, const MpiArithmetic& theirs) {
    const int root = static_cast<int>(context.operation.root);
    by_mpi(context, [&](const void* in, void* out, int count, MPI_Request* request) {
      return MPI_Ireduce(in, out, count, theirs.type, theirs.op, root, transport_.all(), request);
    });
    if (rank() == context.operation.root) finish_average(context.operation);
  }

  void finish_average(const Operation& operation) {
    if (operation.reduce.op != ReduceOp::kAverage) return;
    divide(operation.out.dtype, operation.out.data, operation.out.count, lanes_of(operation, size()).back().end());
  }

  void broadcast(const OpContext& context) {
    const Operation& operation = context.operation;
    Requests requests;
    for (MutableBytes left = operation.out.bytes(); !left.empty();) {
      const std::size_t bytes = std::min(left.size(), kMpiPieceBytes);
      MPI_Request& request = requests.open.emplace_back(MPI_REQUEST_NULL);
      MpiTransport::check(MPI_Ibcast(left.data(), static_cast<int>(bytes), MPI_BYTE, static_cast<int>(operation.root),
                                     transport_.all(), &request),
                          "MPI_Ibcast");
      left = left.subspan(bytes);
    }
    if (rank() == operation.root) transport_.count_sent(operation.out.size_bytes());
    transport_.wait(requests, context);
  }

  // Parts of different sizes go from rank to rank: MPI's own calls for them are limited to 2 GiB in total.

  void all_gather(const OpContext& context) {
    const Operation& operation = context.operation;
    const auto part = parts(operation.out, operation.out_counts);
    copy_bytes(part(rank()).data(), operation.in.data, operation.in.size_bytes());
    std::vector<Transfer> transfers;
    for (const Rank peer : others()) {
      transfers.push_back(incoming(peer, part(peer)));
      transfers.push_back(outgoing(peer, operation.in.bytes()));
    }
    transport_.exchange(transfers, context);
  }

  void gather(const OpContext& context) {
    const Operation& operation = context.operation;
    std::vector<Transfer> transfers;
    if (rank() == operation.root) {
      const auto part = parts(operation.out, operation.out_counts);
      copy_bytes(part(rank()).data(), operation.in.data, operation.in.size_bytes());
      for (const Rank peer : others()) transfers.push_back(incoming(peer, part(peer)));
    } else {
      transfers.push_back(outgoing(operation.root, operation.in.bytes()));
    }
    transport_.exchange(transfers, context);
  }

  void scatter(const OpContext& context) {
    const Operation& operation = context.operation;
    std::vector<Transfer> transfers;
    if (rank() == operation.root) {
      const auto part = parts(operation.in, operation.in_counts);
      for (const Rank peer : others()) transfers.push_back(outgoing(peer, part(peer)));
      copy_bytes(operation.out.data, part(rank()).data(), operation.out.size_bytes());
    } else {
      transfers.push_back(incoming(operation.root, operation.out.bytes()));
    }
    transport_.exchange(transfers, context);
  }

  void all_to_all(const OpContext& context) {
    const Operation& operation = context.operation;
    ConstArray in = operation.in;
    if (in.data == operation.out.data && in.count > 0) {  // received data must not overwrite what is still to be sent
      const MutableBytes copy = stage(in.size_bytes());
      copy_bytes(copy.data(), in.data, in.size_bytes());
      in.data = copy.data();
    }
    const auto from = parts(in, operation.in_counts);
    const auto to = parts(operation.out, operation.out_counts);
    copy_bytes(to(rank()).data(), from(rank()).data(), to(rank()).size());
    std::vector<Transfer> transfers;
    for (const Rank peer : others()) {
      transfers.push_back(incoming(peer, to(peer)));
      transfers.push_back(outgoing(peer, from(peer)));
    }
    transport_.exchange(transfers, context);
  }

  MpiTransport transport_;
  MpiMessages messages_;
  std::uint64_t collectives_ = 0;
  std::vector<CallSignature> calls_;  // of the collective in progress, by rank
  std::unique_ptr<std::byte[]> staging_;
  std::size_t staging_bytes_ = 0;
  std::atomic<std::uint64_t> operations_{0};
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(Deadline deadline) { return std::make_unique<MpiBackend>(deadline); }

}  // namespace trireme::collective
