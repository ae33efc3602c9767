#pragma once

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/lanes.h"
#include "base/units.h"
#include "collective/reduction.h"

namespace trireme::collective {

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
  Bytes bytes() const { return {data, size_bytes()}; }
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
  MutableBytes bytes() const { return {data, size_bytes()}; }
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

/// How an all_reduce moves its data; choose_all_reduce (collective/choice.h) picks one.
enum class Algorithm : std::uint8_t {
  kAuto,             ///< chosen from size, ranks and topology
  kOneShot,          ///< everybody reads everything: one round, for small data
  kDirect,           ///< each rank owns a slice, sums it in lane order, and gives it to all: two rounds
  kInPlace,          ///< direct on buffers that all ranks share: no copy
  kTree,             ///< up the summation tree and down again: few messages, for small data on many ranks
  kHalvingDoubling,  ///< recursive halving, then doubling (Thakur et al. 2005): powers of two
  kRing,             ///< around the ring (Patarasuk & Yuan 2009): not in lane order
  kHierarchical,     ///< shared memory within a host, one rank of each host over the network
};

std::string_view name_of(Algorithm algorithm);

/// Throws InvalidArgument, with the nearest name.
Algorithm parse_algorithm(const std::string& name);

struct ReduceOptions {
  ReduceOp op = ReduceOp::kSum;
  /// What each rank's values are a partial sum of: a subtree of the summation tree (base/lanes.h) for each rank, in
  /// lane order; the same on all ranks. Empty: rank i holds lane i. The result then depends on lanes alone, bit for
  /// bit, not on how many ranks share them.
  std::vector<LaneRange> lanes;
  Algorithm algorithm = Algorithm::kAuto;
  bool any_order = false;  ///< allow algorithms whose sums depend on the number of ranks (ring)
};

/// What to do, as a value: `Communicator::run` does it, `Communicator::start` does it in the background. The memory
/// stays the caller's, and must stay as it is until the operation has ended. Input and output are the same memory (in
/// place) or do not overlap.
struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  ConstArray in;
  Array out;
  ReduceOptions reduce;
  Rank root = 0;                        ///< or the peer of send and recv
  std::vector<std::size_t> in_counts;   ///< elements for each rank (scatter, all_to_all, reduce_scatter)
  std::vector<std::size_t> out_counts;  ///< elements from each rank (gather, all_gather, all_to_all)
  std::string label;                    ///< for the timeline
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

/// Completes what is implied (equal counts) and checks what can be checked alone. Throws InvalidArgument.
void validate(Operation& operation, Rank rank, std::uint32_t size);

/// "all_reduce sum of 1000 F32": for messages.
std::string describe(const Operation& operation);

}  // namespace trireme::collective
