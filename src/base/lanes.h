#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "trireme/types.h"

namespace trireme {

// The order of summation. Floating-point addition is not associative, so who adds what first is fixed once: a binary
// tree over lane numbers. A node of n lanes has as left child its first 2^k lanes (2^k the largest power of two below
// n) and the rest as right child. A whole subtree may be summed by one worker; the result does not depend on which.

/// How many lanes the left child of a node of `count` >= 2 lanes holds.
Lane left_lanes(Lane count);

/// Whether `range` is a node of the summation tree over `lanes` lanes: what a partial sum from a peer must be.
bool is_subtree(Lane lanes, LaneRange range);

/// How deep below the root of the tree over `lanes` lanes two neighbouring subtrees part ways. Aborts if they overlap,
/// are out of order, or one of them lies across a node.
std::uint8_t fork_depth(Lane lanes, LaneRange subtree, LaneRange next);

/// The order in which partial sums are combined along the tree, worked out once and then followed for block after block
/// of their elements: a stack of values, on which parts are put one after the other, and the upper two combined each
/// time a node of the tree is complete.
class FoldOrder {
 public:
  /// Room on the stack for any order: one level for each level of the tree, and one for the part that comes next.
  static constexpr std::size_t kLevels = std::numeric_limits<Lane>::digits + 1;

  /// How much of each part at a time. The processor fetches ahead where it sees memory read in order: blocks of many
  /// parts that come from main memory must be so small that it sees all of them as read at once (with 4 KiB the sum of
  /// 8 parts takes twice as long). Otherwise larger, since each combination of two blocks is a call.
  static constexpr std::size_t kSmallBlock = 512;
  static constexpr std::size_t kLargeBlock = 2048;
  static std::size_t block_bytes(std::size_t parts, std::size_t bytes_each) {
    return parts > 2 && parts * bytes_each > (1 << 20) ? kSmallBlock : kLargeBlock;
  }

  /// For `parts` (at least one; disjoint subtrees of the tree over `lanes` lanes, in lane order, not necessarily
  /// covering), each with a member `lanes`. Aborts if they are out of order or a part lies across a node.
  template <typename Part>
  FoldOrder(Lane lanes, std::span<const Part> parts);

  /// Calls `put(part, level)` for each part, by its index: part to stack[level]. Between these it calls
  /// `combine(level, is_last)`: stack[level] and stack[level + 1], in this order, to stack[level]. The last combination
  /// gives the result, at level 0.
  template <typename Put, typename Combine>
  void walk(Put put, Combine combine) const;

 private:
  std::vector<std::uint8_t> combinations_;  ///< how many follow each part
};

/// Deals `lanes` to `workers` so that each worker holds exactly one subtree and the largest share is as small as that
/// allows: always less than twice lanes / workers, and even where both are powers of two. 8 lanes on 3 workers: 4,
/// 2, 2. Result i belongs to worker i; in lane order. Throws InvalidArgument unless 1 <= workers <= lanes.
std::vector<LaneRange> deal_lanes(Lane lanes, std::uint32_t workers);

/// The same for workers of different speed: worker i takes `costs[i]` for a lane, and the longest time that anybody
/// needs is as short as one subtree each allows. 8 lanes on three workers of which the first takes twice as long: 2,
/// 2, 4. Few enough workers and lanes are tried out; otherwise, or if all cost the same, the shares are those of above.
/// Throws InvalidArgument as above, and unless all costs are above 0.
std::vector<LaneRange> deal_lanes(Lane lanes, std::span<const double> costs);

/// The samples [first, first + count) of a batch of `batch` that belong to `lane` of `lanes`: contiguous, in order,
/// sizes differ by at most one (the first lanes get the larger ones); empty where batch < lanes.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};
SampleRange lane_samples(std::uint64_t batch, Lane lanes, Lane lane);

/// A partial sum over `lanes`, owned by somebody else.
struct Partial {
  LaneRange lanes;
  const float* values = nullptr;
};

/// Sums `partials` (at least one; disjoint subtrees, in lane order, not necessarily covering) along the tree over
/// `lanes` lanes into `out`, elements [begin, begin + out.size()) of each. Missing lanes count as absent, not as zero:
/// x + nothing = x, so -0 stays -0. `out` must not overlap a partial. Any thread.
///
/// Each partial is read once and `out` is written once, as far as memory is concerned: sums in between stay in the
/// first-level cache. Ranges are the caller's to check (`is_subtree`); partials out of order or across a node abort.
void tree_sum(Lane lanes, std::span<const Partial> partials, std::size_t begin, std::span<float> out);

// Implementation.

template <typename Part>
FoldOrder::FoldOrder(Lane lanes, std::span<const Part> parts) : combinations_(parts.size()) {
  // The forks between the values on the stack lie deeper and deeper. After a part, those that are deeper than the fork
  // between it and the next part are complete.
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
