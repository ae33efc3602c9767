#pragma once

// Collective operations among the processes of a job, on arrays in host memory. No LibTorch needed: Trireme::core.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "trireme/deadline.h"
#include "trireme/error.h"
#include "trireme/types.h"

namespace trireme::net {
struct Address;
}

namespace trireme::collective {

class Backend;
class Endpoint;
struct CommunicatorOptions;

/// How elements are combined. kAverage is a sum that is divided once, at the end.
enum class ReduceOp : std::uint8_t { kSum, kAverage, kMin, kMax, kProduct };

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::kI16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::kI64;
};

/// Elements to read: the caller's memory, at any alignment. Converts from a span; 16-bit floats need the constructor
/// that takes a DType.
struct ConstArray {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  std::size_t count = 0;

  ConstArray() = default;
  ConstArray(DType type, const void* memory, std::size_t elements)
      : dtype(type), data(static_cast<const std::byte*>(memory)), count(elements) {}
  template <typename T>
  ConstArray(std::span<T> values)  // NOLINT(google-explicit-constructor): a span is what callers have
      : ConstArray(DTypeOf<std::remove_const_t<T>>::value, values.data(), values.size()) {}

  std::size_t size_bytes() const { return count * size_of(dtype); }
  std::span<const std::byte> bytes() const { return {data, size_bytes()}; }
};

/// Elements to read and write.
struct Array {
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
  std::size_t count = 0;

  Array() = default;
  Array(DType type, void* memory, std::size_t elements)
      : dtype(type), data(static_cast<std::byte*>(memory)), count(elements) {}
  template <typename T>
  requires(!std::is_const_v<T>) Array(std::span<T> values)  // NOLINT(google-explicit-constructor): as above
      : Array(DTypeOf<T>::value, values.data(), values.size()) {}

  operator ConstArray() const { return {dtype, data, count}; }  // NOLINT(google-explicit-constructor): may be read, too
  std::size_t size_bytes() const { return count * size_of(dtype); }
  std::span<std::byte> bytes() const { return {data, size_bytes()}; }
};

enum class OperationKind : std::uint8_t {
  kBarrier,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kRecv,
};

std::string_view name_of(OperationKind kind);

/// How an operation moves its data. `TRIREME_TRACE_ALGORITHMS=1` logs what was chosen, and why.
enum class Algorithm : std::uint8_t {
  kAuto,             ///< chosen from size, ranks and topology
  kOneShot,          ///< every rank reads all data: one round, for small data
  kDirect,           ///< each rank owns a slice, sums it in lane order, and gives it to all: two rounds
  kInPlace,          ///< direct on buffers that all ranks share: no copy
  kTree,             ///< along the binomial tree: few messages, for small data on many ranks
  kHalvingDoubling,  ///< recursive halving, then doubling (Thakur et al. 2005): powers of two
  kRing,             ///< around the ring (Patarasuk & Yuan 2009): not in lane order
  kHierarchical,     ///< shared memory within a host, one rank of each host over the network
};

std::string_view name_of(Algorithm algorithm);

/// Throws InvalidArgument, with the nearest name.
Algorithm parse_algorithm(const std::string& name);

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// The lanes that each rank's values are a sum of: one subtree of the summation tree (LaneRange) per rank, in lane
  /// order; the same on all ranks. Empty: rank i holds lane i. The result then depends on the lanes only, bit for bit,
  /// not on how many ranks share them.
  std::vector<LaneRange> lanes = {};
  Algorithm algorithm = Algorithm::kAuto;
  bool any_order = false;  ///< allow algorithms whose sums depend on the number of ranks (ring)
};

/// A collective operation as a value: `Communicator::run` carries it out, `Communicator::start` in the background. The
/// caller owns the memory, and must leave it valid and unchanged until the operation has ended. Input and output are
/// the same memory (in place) or do not overlap.
struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  ConstArray in = {};
  Array out = {};
  ReduceOptions reduce = {};
  Rank root = 0;                             ///< or the peer of send and recv
  std::vector<std::size_t> in_counts = {};   ///< elements for each rank (scatter, all_to_all, reduce_scatter)
  std::vector<std::size_t> out_counts = {};  ///< elements from each rank (gather, all_gather, all_to_all)
  std::string label = {};                    ///< for the timeline
};

/// Every rank's `data` becomes the reduction over all ranks.
Operation all_reduce(Array data, ReduceOptions options = {});
Operation all_reduce(ConstArray in, Array out, ReduceOptions options = {});

/// Rank i's `out` becomes part i of the reduction. Parts are of equal size, or of `counts[i]` elements.
Operation reduce_scatter(ConstArray in, Array out, ReduceOptions options = {}, std::vector<std::size_t> counts = {});

/// Every rank's `out` becomes the ranks' inputs one after the other: equal sizes, or `counts[i]` from rank i. In place:
/// `in` is its own part of `out`.
Operation all_gather(ConstArray in, Array out, std::vector<std::size_t> counts = {});

/// Every rank's `data` becomes the root's.
Operation broadcast(Array data, Rank root = 0);

/// The root's `out` becomes the reduction; elsewhere `out` may be empty.
Operation reduce(ConstArray in, Array out, Rank root = 0, ReduceOptions options = {});

/// The root's `out` becomes the ranks' inputs one after the other; elsewhere `out` is empty.
Operation gather(ConstArray in, Array out, Rank root = 0, std::vector<std::size_t> counts = {});

/// Rank i's `out` becomes part i of the root's `in`; elsewhere `in` is empty.
Operation scatter(ConstArray in, Array out, Rank root = 0, std::vector<std::size_t> counts = {});

/// Part j of rank i's `in` becomes part i of rank j's `out`: equal parts, or as counted.
Operation all_to_all(ConstArray in, Array out, std::vector<std::size_t> to = {}, std::vector<std::size_t> from = {});

/// Ends when `peer` has received the data.
Operation send(ConstArray data, Rank peer);
Operation recv(Array data, Rank peer);

/// Ends when all ranks have called it.
Operation barrier();

/// How much data a rank has moved.
struct Traffic {
  std::uint64_t operations = 0;
  std::uint64_t sent_bytes = 0;    ///< to ranks on other hosts, or over TCP and TLS on this one
  std::uint64_t shared_bytes = 0;  ///< read from, or written to, other ranks' memory
};

/// An operation that was started in the background.
class Handle {
 public:
  Handle() = default;

  /// Waits until it has ended. Throws its failure (on every call), or Timeout if `deadline` passes first; the operation
  /// then continues until its own deadline.
  void wait(Deadline deadline);
  void wait();

  /// Returns whether it has ended, successfully or not.
  bool poll() const;

  bool valid() const { return state_ != nullptr; }

 private:
  friend class Communicator;
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// The members of one view as equals: collective operations among them, matched by the order of the calls.
///
///     collective::Communicator& ranks = job->ranks();  // under `trireme run`; see job.h
///
///     ranks.run(all_reduce(std::span(gradient)));                // blocking, in place
///     Handle busy = ranks.start(all_reduce(std::span(bucket)));  // in the background
///     busy.wait();
///     ranks.run({send(ConstArray(a), 1), recv(Array(b), 1)});    // a group: all of them make progress together
///
/// Without a launcher: collective::connect({.rank = 0, .addresses = {"a:4801", "b:4801"}, .secret = secret}).
///
/// Thread-safe; threads that share one communicator must call in the same order on all ranks.
///
/// Failures: PeerLost (a rank died; all others learn of it in under a second) and Timeout (a rank is silent; the
/// message names it) abort the group: every later call throws PeerLost with that reason until `reconfigure`.
/// InvalidArgument (ranks asked for different things; both are named, on every rank) leaves the group usable.
class Communicator {
 public:
  /// Connects to all members; blocks until all are connected. Throws Timeout naming the missing ranks, PeerLost,
  /// Unauthenticated. `endpoint` must outlive the communicator.
  Communicator(Endpoint& endpoint, CommunicatorOptions options);
  Communicator(std::shared_ptr<Endpoint> endpoint, CommunicatorOptions options);

  /// Uses another engine, whose ranks are already connected: MPI, NCCL.
  explicit Communicator(std::unique_ptr<Backend> backend);
  Communicator(std::unique_ptr<Backend> backend, CommunicatorOptions options);

  /// Operations that have not begun are dropped, one in progress is aborted. The others learn that this rank left, and
  /// can still complete the operations that it has completed.
  ~Communicator();

  Rank rank() const;
  std::uint32_t size() const;
  View view() const;

  /// Carries out `operation` with all ranks of the group, or the two of a send and recv; blocks until this rank's part
  /// is done: its memory is then the caller's again. `deadline` counts from the call (by default 30 s, 10 minutes
  /// within a job). A collective runs on the caller's thread if no started operation is pending; otherwise it runs in
  /// the background, in order, as messages always do. Thread-safe; calls are matched by their order, which must be the
  /// same on all ranks.
  ///
  /// Throws InvalidArgument if the operation is invalid by itself (nothing was sent) or the ranks asked for different
  /// things (all of them throw); the group stays usable. Throws PeerLost if a rank is gone or the group is aborted,
  /// Timeout naming the ranks that hold it up; both abort the group, and what `out` holds is then undefined.
  void run(Operation operation);
  void run(Operation operation, Deadline deadline);

  /// The same for several operations together: sends and receives make progress at the same time, collectives one after
  /// the other, in order. All are validated before any begins. Returns, or throws the first failure, once all have
  /// ended: none uses the caller's memory any longer.
  void run(std::vector<Operation> group);

  /// Begins `operation` in the background and returns at once; operations run in the order of the calls. Its memory
  /// must stay valid and untouched until the handle says that it has ended, or `reconfigure` or the destructor has
  /// returned (it then ends with PeerLost). Dropping the handle does not cancel it. Thread-safe, order as for `run`.
  /// Throws InvalidArgument if it is invalid by itself, PeerLost if the group is aborted already; whatever goes wrong
  /// later comes out of Handle::wait.
  Handle start(Operation operation);

  /// Returns zeroed memory that the ranks of this host share; data in it is reduced in place. A collective call: all
  /// ranks ask for the same size, in the same order. The memory lives until its last user is gone, even after the
  /// communicator. It is private where there is no other rank to share it with.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// A communicator over some of the ranks (strictly ascending, this one among them), which are numbered anew in that
  /// order. Called by these ranks only, with the same name.
  std::unique_ptr<Communicator> subgroup(const std::string& name, const std::vector<Rank>& ranks);

  /// Makes the operation in progress, and all later ones, fail with PeerLost and this reason. May be called from any
  /// thread.
  void abort(const std::string& reason);

  /// Continues with the members of another view. Drops unfinished operations; shared memory allocated before becomes
  /// private to each rank. Throws as the constructor does; the group then stays broken until a later call succeeds.
  void reconfigure(Rank rank, View view, std::vector<net::Address> members);

  /// Called on another thread when a background collective is over, with the times at which it began and ended. Set it
  /// before the first operation, or not at all.
  using Observer = std::function<void(const Operation& operation, Deadline::Clock::time_point began,
                                      Deadline::Clock::time_point ended)>;
  void set_observer(Observer observer);

  /// Returns what this rank has moved so far.
  Traffic traffic() const;

  /// How the ranks are connected: "shm", "tcp", "tls", "shm+tls", "alone".
  std::string transport() const;

 private:
  class Engine;
  std::shared_ptr<Endpoint> endpoint_;  // null: owned by the caller
  std::unique_ptr<Engine> engine_;
};

struct ConnectOptions {
  Rank rank = 0;
  /// "host:port" of every rank, by rank, without a scheme: `transport` says how they talk. This one listens at its own.
  std::vector<std::string> addresses = {};
  std::string secret = {};                    ///< the same on all ranks, known to nobody else
  std::string transport = "auto";             ///< shared memory within a host, TLS between hosts; or shm, tcp, tls
  std::chrono::milliseconds within{60000};    ///< how long to wait for the others
  std::chrono::milliseconds deadline{30000};  ///< of each operation
};

/// Finds the other ranks at addresses that all know, without a launcher or a master. Blocks until all are connected.
/// Throws Timeout naming the missing ranks, PeerLost, Unauthenticated, InvalidArgument (rank, addresses), IoError (the
/// port is taken).
std::unique_ptr<Communicator> connect(const ConnectOptions& options);

}  // namespace trireme::collective
