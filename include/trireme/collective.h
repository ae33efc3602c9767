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

/// Elements to read: memory of the caller, of any alignment. Made from a span, or by hand for 16-bit floats.
struct ConstArray {
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
  std::size_t count = 0;

  ConstArray() = default;
  ConstArray(DType type, const void* memory, std::size_t elements)
      : dtype(type), data(static_cast<const std::byte*>(memory)), count(elements) {}
  template <typename T>
  ConstArray(std::span<T> values) : ConstArray(DTypeOf<std::remove_const_t<T>>::value, values.data(), values.size()) {}

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
  requires(!std::is_const_v<T>) Array(std::span<T> values) : Array(DTypeOf<T>::value, values.data(), values.size()) {}

  operator ConstArray() const { return {dtype, data, count}; }
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
  kOneShot,          ///< everybody reads everything: one round, for small data
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
  /// What each rank's values are a partial sum of: a subtree of the summation tree (LaneRange) for each rank, in
  /// lane order; the same on all ranks. Empty: rank i holds lane i. The result then depends on lanes alone, bit for
  /// bit, not on how many ranks share them.
  std::vector<LaneRange> lanes = {};
  Algorithm algorithm = Algorithm::kAuto;
  bool any_order = false;  ///< allow algorithms whose sums depend on the number of ranks (ring)
};

/// What to do, as a value: `Communicator::run` does it, `Communicator::start` does it in the background. The memory
/// stays the caller's, and must stay as it is until the operation has ended. Input and output are the same memory (in
/// place) or do not overlap.
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

/// Done when `peer` has received it.
Operation send(ConstArray data, Rank peer);
Operation recv(Array data, Rank peer);

/// Nobody goes on before everybody is here.
Operation barrier();

/// What a rank has moved.
struct Traffic {
  std::uint64_t operations = 0;
  std::uint64_t sent_bytes = 0;    ///< to ranks on other hosts, or over TCP and TLS on this one
  std::uint64_t shared_bytes = 0;  ///< read from, or written to, other ranks' memory
};

/// An operation on its way.
class Handle {
 public:
  Handle() = default;

  /// Waits until it has ended. Throws what went wrong in it (again and again, if asked again), Timeout if `deadline`
  /// passes first (the operation goes on, and ends by its own deadline).
  void wait(Deadline deadline);
  void wait();

  /// Whether it has ended, well or not.
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
///   collective::Communicator& ranks = job->ranks();             // under `trireme run`; see job.h
///   const auto ranks = collective::connect({.rank = 0, .addresses = {"a:4801", "b:4801"}, .secret = secret});  // or
///   so ranks.run(all_reduce(std::span(gradient))); Handle busy = ranks.start(all_reduce(std::span(bucket)));  ...
///   busy.wait(); ranks.run({send(ConstArray(a), 1), recv(Array(b), 1)});    // a group: all of them make progress
///   together
///
/// Thread-safe; threads that share one communicator must call in the same order on all ranks.
///
/// A failure: PeerLost (a rank died; all others hear of it in under a second) and Timeout (a rank is silent; it is
/// named) abort the group: every later call throws PeerLost with that reason until `reconfigure`. InvalidArgument
/// (ranks asked for different things; both are named, on every rank) leaves the group usable.
class Communicator {
 public:
  /// Connects to all members; blocks until all are here. Throws Timeout naming who is missing, PeerLost,
  /// Unauthenticated. `endpoint` outlives the communicator.
  Communicator(Endpoint& endpoint, CommunicatorOptions options);
  Communicator(std::shared_ptr<Endpoint> endpoint, CommunicatorOptions options);

  /// On another engine that already knows its ranks: MPI, NCCL.
  explicit Communicator(std::unique_ptr<Backend> backend);
  Communicator(std::unique_ptr<Backend> backend, CommunicatorOptions options);

  /// Operations that have not begun are dropped, one in progress is aborted. The others hear that this rank left, and
  /// can still finish what it has finished.
  ~Communicator();

  Rank rank() const;
  std::uint32_t size() const;
  View view() const;

  /// Carries out `operation` with all ranks of the group, or the two of a send and recv; blocks until this rank's part
  /// is done: its memory is then the caller's again. `deadline` counts from the call (by default 30 s, 10 minutes
  /// within a job). With nothing started before it a collective runs on the caller's thread; otherwise, and for
  /// messages, in the background, in its turn. Thread-safe; calls are matched by their order, which must be the same on
  /// all ranks.
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

  /// Memory that the ranks of this host share: what lies in it is reduced in place. Zeroed. A collective call: all
  /// ranks ask for the same size, in the same order. Lives until the last user is gone, also after the communicator.
  /// Private memory where there is nobody to share with.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// A communicator over some of the ranks (strictly ascending, this one among them), which are numbered anew in that
  /// order. Called by these ranks only, with the same name.
  std::unique_ptr<Communicator> subgroup(const std::string& name, const std::vector<Rank>& ranks);

  /// Makes the operation in progress, and all later ones, fail with PeerLost for this reason; from any thread.
  void abort(const std::string& reason);

  /// Goes on with the members of another view. Drops what was not finished; shared memory allocated before is private
  /// to each rank from now on. Throws as the constructor does; then the group stays broken until this works, in a later
  /// view.
  void reconfigure(Rank rank, View view, std::vector<net::Address> members);

  /// Who is told of each collective in the background when it is over, and when it began and ended; on another thread.
  /// Set before the first one, or never.
  using Observer = std::function<void(const Operation& operation, Deadline::Clock::time_point began,
                                      Deadline::Clock::time_point ended)>;
  void set_observer(Observer observer);

  /// What was moved so far by this rank.
  Traffic traffic() const;

  /// How the ranks are connected: "shm", "tcp", "tls", "shm+tls", "alone".
  std::string transport() const;

 private:
  class Engine;
  std::shared_ptr<Endpoint> endpoint_;  // null: somebody else's
  std::unique_ptr<Engine> engine_;
};

struct ConnectOptions {
  Rank rank = 0;
  std::vector<std::string> addresses = {};    ///< "host:port" of every rank, by rank; this one listens at its own
  std::string secret = {};                    ///< the same on all ranks, known to nobody else
  std::string transport = "auto";             ///< shared memory within a host, TLS between hosts; or shm, tcp, tls
  std::chrono::milliseconds within{60000};    ///< how long to wait for the others
  std::chrono::milliseconds deadline{30000};  ///< of each operation
};

/// Finds the other ranks at addresses that all know, without a launcher or a master. Blocks until all are here. Throws
/// Timeout naming who is missing, PeerLost, Unauthenticated, InvalidArgument (rank, addresses), IoError (the port is
/// taken).
std::unique_ptr<Communicator> connect(const ConnectOptions& options);

}  // namespace trireme::collective
