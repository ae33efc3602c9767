#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/base/units.h"

namespace trireme {

// The order of summation. Floating-point addition is not associative, so who adds what first is fixed once: a binary
// tree over lane numbers. A node of n lanes has as left child its first 2^k lanes (2^k the largest power of two below
// n) and the rest as right child. A whole subtree may be summed by one worker; the result does not depend on which.

/// A run of neighbouring lanes that is a subtree of the summation tree.
struct LaneRange {
  Lane first = 0;
  Lane count = 0;

  Lane end() const { return first + count; }
  bool operator==(const LaneRange&) const = default;
};

/// How many lanes the left child of a node of `count` >= 2 lanes holds.
Lane left_lanes(Lane count);

/// Whether `range` is a node of the summation tree over `lanes` lanes: what a partial sum from a peer must be.
bool is_subtree(Lane lanes, LaneRange range);

/// Deals `lanes` to `workers` so that each worker holds exactly one subtree and the largest share is as small as that
/// allows: always less than twice lanes / workers, and even where both are powers of two. 8 lanes on 3 workers: 4,
/// 2, 2. Result i belongs to worker i; in lane order. Throws InvalidArgument unless 1 <= workers <= lanes.
std::vector<LaneRange> deal_lanes(Lane lanes, std::uint32_t workers);

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
/// x + nothing = x, so -0 stays -0. `out` must not overlap a partial. Does not allocate; any thread.
///
/// Each partial is read once and `out` is written once, as far as memory is concerned: sums in between stay in the
/// first-level cache. Ranges are the caller's to check (`is_subtree`); partials out of order or across a node abort.
void tree_sum(Lane lanes, std::span<const Partial> partials, std::size_t begin, std::span<float> out);

}  // namespace trireme
