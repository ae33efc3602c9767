#include "trireme/base/lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>

#include "trireme/base/error.h"
#include "trireme/base/simd.h"

namespace trireme {

Lane left_lanes(Lane count) {
  TRIREME_CHECK(count >= 2, "a node of {} lanes has no children", count);
  return std::bit_floor(count - 1);
}

namespace {

LaneRange left_child(LaneRange node) { return {node.first, left_lanes(node.count)}; }

LaneRange right_child(LaneRange node) {
  const Lane left = left_lanes(node.count);
  return {node.first + left, node.count - left};
}

}  // namespace

bool is_subtree(Lane lanes, LaneRange range) {
  if (range.count == 0 || range.count > lanes || range.first > lanes - range.count) return false;
  LaneRange node{0, lanes};
  while (node.count > range.count) {
    const LaneRange right = right_child(node);
    node = range.first < right.first ? left_child(node) : right;
  }
  return node == range;
}

std::vector<LaneRange> deal_lanes(Lane lanes, std::uint32_t workers) {
  if (workers == 0 || workers > lanes) {
    fail<InvalidArgument>(
        "{} lanes cannot be dealt to {} workers: there must be at least one worker, and a lane for each", lanes,
        workers);
  }
  // Split the largest share until there is one for each worker. That is optimal: to get every share down to s, all
  // nodes larger than s must be split, and since children are smaller than their parent, these are split first.
  // Among equals the last is split, so that the first workers hold the larger shares.
  const auto before = [](LaneRange a, LaneRange b) {
    return a.count != b.count ? a.count < b.count : a.first < b.first;
  };
  std::priority_queue<LaneRange, std::vector<LaneRange>, decltype(before)> shares(before);
  shares.push({0, lanes});
  while (shares.size() < workers) {
    const LaneRange largest = shares.top();
    shares.pop();
    shares.push(left_child(largest));
    shares.push(right_child(largest));
  }
  std::vector<LaneRange> dealt;
  for (dealt.reserve(workers); !shares.empty(); shares.pop()) dealt.push_back(shares.top());
  std::ranges::sort(dealt, {}, &LaneRange::first);
  return dealt;
}

SampleRange lane_samples(std::uint64_t batch, Lane lanes, Lane lane) {
  TRIREME_CHECK(lane < lanes, "lane {} of {}", lane, lanes);
  const std::uint64_t size = batch / lanes;
  const std::uint64_t larger = batch % lanes;  // so many lanes have one sample more
  return {lane * size + std::min<std::uint64_t>(lane, larger), size + (lane < larger ? 1 : 0)};
}

namespace {

/// Sums are done this many floats at a time, so that the sums in between (one block per level of the tree) stay in the
/// first-level cache.
constexpr std::size_t kBlock = 1024;

/// out[i] = a[i] + b[i]; `out` may be `a` or `b`.
TRIREME_SIMD void add(const float* a, const float* b, float* out, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

const float* sum_below(LaneRange node, std::span<const Partial> partials, std::size_t begin, std::size_t count,
                       float* space);

/// The sum of two sides that are sums themselves. Apart from `sum_below` so that only such nodes take stack space.
[[gnu::noinline]] void sum_both(LaneRange node, std::span<const Partial> left, std::span<const Partial> right,
                                std::size_t begin, std::size_t count, float* space) {
  alignas(64) float right_space[kBlock];
  const float* left_sum = sum_below(left_child(node), left, begin, count, space);
  const float* right_sum = sum_below(right_child(node), right, begin, count, right_space);
  add(left_sum, right_sum, space, count);
}

/// Elements [begin, begin + count) of the sum of `partials`, all below `node`. Returns where they are: in the only
/// partial there is, else in `space`.
const float* sum_below(LaneRange node, std::span<const Partial> partials, std::size_t begin, std::size_t count,
                       float* space) {
  if (partials.size() == 1) return partials[0].values + begin;
  while (true) {
    const Lane middle = node.first + left_lanes(node.count);
    const auto split = std::ranges::find_if(partials, [=](const Partial& p) { return p.lanes.first >= middle; });
    const auto left = partials.first(static_cast<std::size_t>(split - partials.begin()));
    const auto right = partials.subspan(left.size());
    TRIREME_CHECK(left.empty() || left.back().lanes.end() <= middle, "a partial sum crosses lane {}", middle);
    if (right.empty()) {
      node = left_child(node);
    } else if (left.empty()) {
      node = right_child(node);
    } else if (left.size() > 1 && right.size() > 1) {
      sum_both(node, left, right, begin, count, space);
      return space;
    } else {  // at most one side is a sum, so both may name the same space
      const float* left_sum = sum_below(left_child(node), left, begin, count, space);
      const float* right_sum = sum_below(right_child(node), right, begin, count, space);
      add(left_sum, right_sum, space, count);
      return space;
    }
  }
}

}  // namespace

void tree_sum(Lane lanes, std::span<const Partial> partials, std::size_t begin, std::span<float> out) {
  TRIREME_CHECK(!partials.empty() && partials.back().lanes.end() <= lanes, "{} partial sums over {} lanes",
                partials.size(), lanes);
  if (out.empty()) return;
  if (partials.size() == 1) {
    std::memcpy(out.data(), partials[0].values + begin, out.size_bytes());
  } else if (partials.size() == 2) {  // one order only: no need to look for it
    add(partials[0].values + begin, partials[1].values + begin, out.data(), out.size());
  } else {
    for (std::size_t done = 0; done < out.size(); done += kBlock) {
      const std::size_t count = std::min(kBlock, out.size() - done);
      sum_below({0, lanes}, partials, begin + done, count, out.data() + done);
    }
  }
}

}  // namespace trireme
