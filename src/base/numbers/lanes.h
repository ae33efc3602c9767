#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "trireme/types.h"

namespace trireme {

// The order of summation. Floating-point addition is not associative, so the order of additions is fixed once: a binary
// tree over lane numbers. The left child of a node of n lanes holds its first 2^k lanes (2^k the largest power of two
// below n), the right child the rest. One worker may sum a whole subtree; the result does not depend on which.

/// Returns how many lanes the left child of a node of `count` >= 2 lanes holds.
Lane left_lanes(Lane count);

/// Returns whether `range` is a node of the summation tree over `lanes` lanes, as a partial sum from a peer must be.
bool is_subtree(Lane lanes, LaneRange range);

/// Returns how deep below the root of the tree over `lanes` lanes two neighbouring subtrees separate. Aborts if they
/// overlap, are out of order, or one of them crosses the boundary of a node.
std::uint8_t fork_depth(Lane lanes, LaneRange subtree, LaneRange next);

/// The order in which partial sums are combined along the tree, computed once and then applied to one block of elements
/// after the other: parts are pushed onto a stack of values, and whenever a node of the tree is complete, the top two
/// values are combined.
class FoldOrder {
 public:
  /// Stack size that is enough for any order: one entry per level of the tree, and one for the next part.
  static constexpr std::size_t kLevels = std::numeric_limits<Lane>::digits + 1;

  /// Returns how many bytes of each part to sum at a time. The processor prefetches where it sees memory read in order:
  /// blocks of many parts that come from main memory must be so small that it prefetches all of them at the same time
  /// (with 4 KiB the sum of 8 parts takes twice as long). Otherwise larger, since combining two blocks costs a call.
  static constexpr std::size_t kSmallBlock = 512;
  static constexpr std::size_t kLargeBlock = 2048;
  static std::size_t block_bytes(std::size_t parts, std::size_t bytes_each) {
    return parts > 2 && parts * bytes_each > (1 << 20) ? kSmallBlock : kLargeBlock;
  }

  /// For `parts` (at least one; disjoint subtrees of the tree over `lanes` lanes, in lane order, possibly with gaps),
  /// each with a member `lanes`. Aborts if they are out of order or a part crosses the boundary of a node.
  template <typename Part>
  FoldOrder(Lane lanes, std::span<const Part> parts);

  /// Calls `put(part, level)` for each part, by its index: copy the part to stack[level]. In between it calls
  /// `combine(level, is_last)`: combine stack[level] and stack[level + 1], in this order, into stack[level]. The last
  /// combination gives the result, at level 0.
  template <typename Put, typename Combine>
  void walk(Put put, Combine combine) const;

 private:
  std::vector<std::uint8_t> combinations_;  ///< how many follow each part
};

/// Deals `lanes` to `workers` so that each worker holds exactly one subtree and the largest share is as small as that
/// allows: always less than twice lanes / workers, and equal shares where both are powers of two. 8 lanes on 3 workers:
/// 4, 2, 2. Element i of the result belongs to worker i; in lane order. Throws InvalidArgument unless 1 <= workers <=
/// lanes.
std::vector<LaneRange> deal_lanes(Lane lanes, std::uint32_t workers);

/// Does the same for workers of different speeds: worker i takes `costs[i]` for a lane, and the slowest worker's time
/// is as short as one subtree each allows. 8 lanes on three workers of which the first takes twice as long: 2, 2, 4.
/// With few workers and lanes all deals are tried; otherwise, or if all costs are equal, shares are as above. Throws
/// InvalidArgument as above, and unless all costs are above 0.
std::vector<LaneRange> deal_lanes(Lane lanes, std::span<const double> costs);

/// The samples [first, first + count) of a batch of `batch` that belong to `lane` of `lanes`: contiguous, in order,
/// sizes differ by at most one (the first lanes get the larger ones); empty where batch < lanes.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};
SampleRange lane_samples(std::uint64_t batch, Lane lanes, Lane lane);

/// A partial sum over `lanes`; does not own `values`.
struct Partial {
  LaneRange lanes;
  const float* values = nullptr;
};

/// Sums `partials` (at least one; disjoint subtrees, in lane order, possibly with gaps) along the tree over `lanes`
/// lanes into `out`, elements [begin, begin + out.size()) of each. Missing lanes count as absent, not as zero, so -0
/// stays -0. `out` must not overlap a partial. Thread-safe.
///
/// Reads each partial from memory once and writes `out` once: sums in between stay in the first-level cache. The caller
/// checks the ranges (`is_subtree`); partials that are out of order or cross the boundary of a node abort.
void tree_sum(Lane lanes, std::span<const Partial> partials, std::size_t begin, std::span<float> out);

// Implementation.

template <typename Part>
FoldOrder::FoldOrder(Lane lanes, std::span<const Part> parts) : combinations_(parts.size()) {
  // The forks between the values on the stack are ever deeper. After a part, the nodes of those forks that are deeper
  // than the fork between it and the next part are complete.
  std::array<std::uint8_t, kLevels> forks;
  std::size_t open = 0;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::uint8_t depth = fork_depth(lanes, parts[i].lanes, parts[i + 1].lanes);
    for (; open > 0 && forks[open - 1] > depth; --open) ++combinations_[i];
    forks[open++] = depth;
  }
  combinations_.back() = static_cast<std::uint8_t>(open);
}

template <typename Put, typename Combine>
void FoldOrder::walk(Put put, Combine combine) const {
  std::size_t height = 0;
  for (std::size_t part = 0; part < combinations_.size(); ++part) {
    put(part, height++);
    for (std::uint8_t n = combinations_[part]; n > 0; --n) {
      --height;
      combine(height - 1, height == 1 && part + 1 == combinations_.size());
    }
  }
}

}  // namespace trireme
