#include "base/numbers/lanes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "base/numbers/simd.h"

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

std::uint8_t fork_depth(Lane lanes, LaneRange subtree, LaneRange next) {
  TRIREME_CHECK(subtree.end() <= next.first && next.end() <= lanes,
                "partial sums out of order: lanes [{}, {}), then [{}, {}), of {}", subtree.first, subtree.end(),
                next.first, next.end(), lanes);
  LaneRange node{0, lanes};
  for (std::uint8_t depth = 0;; ++depth) {
    const LaneRange right = right_child(node);
    const bool is_left = subtree.first < right.first;
    const bool next_is_left = next.first < right.first;
    TRIREME_CHECK(!is_left || subtree.end() <= right.first, "a partial sum crosses lane {}", right.first);
    TRIREME_CHECK(!next_is_left || next.end() <= right.first, "a partial sum crosses lane {}", right.first);
    if (is_left && !next_is_left) return depth;
    node = next_is_left ? left_child(node) : right;
  }
}

std::vector<LaneRange> deal_lanes(Lane lanes, std::uint32_t workers) {
  if (workers == 0 || workers > lanes) {
    fail<InvalidArgument>(
        "{} lanes cannot be dealt to {} workers: there must be at least one worker, and a lane for each", lanes,
        workers);
  }
  // Splits the largest share until there is one for each worker. That is optimal: to get every share down to s, all
  // nodes larger than s must be split, and since children are smaller than their parent, these are split first. Among
  // equals the last is split, so that the first workers hold the larger shares.
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

namespace {

/// Tries all ways to deal the lanes of a node to neighbouring workers.
class Dealer {
 public:
  explicit Dealer(std::span<const double> costs) : costs_(costs) {}

  /// Returns the longest time that any of the workers [from, to) needs for its part of `node`, dealt in the best way.
  double longest(LaneRange node, std::size_t from, std::size_t to) {
    if (to - from == 1) return node.count * costs_[from];
    const auto [entry, fresh] = best_.try_emplace({node.first, node.count, from, to});
    if (!fresh) return entry->second.longest;
    Best best{.longest = std::numeric_limits<double>::infinity(), .cut = 0};
    for (std::size_t cut = from + 1; cut < to; ++cut) {
      const LaneRange left = left_child(node);
      const LaneRange right = right_child(node);
      if (cut - from > left.count || to - cut > right.count) continue;
      const double time = std::max(longest(left, from, cut), longest(right, cut, to));
      if (time < best.longest) best = {.longest = time, .cut = cut};
    }
    best_[{node.first, node.count, from, to}] = best;
    return best.longest;
  }

  /// Appends the best deal to `dealt`. Call `longest` with the same arguments first.
  void deal(LaneRange node, std::size_t from, std::size_t to, std::vector<LaneRange>& dealt) const {
    if (to - from == 1) return dealt.push_back(node);
    const std::size_t cut = best_.at({node.first, node.count, from, to}).cut;
    deal(left_child(node), from, cut, dealt);
    deal(right_child(node), cut, to, dealt);
  }

 private:
  struct Best {
    double longest = 0;
    std::size_t cut = 0;
  };
  std::span<const double> costs_;
  std::map<std::tuple<Lane, Lane, std::size_t, std::size_t>, Best> best_;
};

constexpr std::size_t kMostTried = 32;  // workers
constexpr Lane kMostLanesTried = 256;

}  // namespace

std::vector<LaneRange> deal_lanes(Lane lanes, std::span<const double> costs) {
  std::vector<LaneRange> even = deal_lanes(lanes, static_cast<std::uint32_t>(costs.size()));
  const auto bad = [](double cost) { return !(cost > 0) || std::isinf(cost); };
  if (std::ranges::any_of(costs, bad)) fail<InvalidArgument>("lanes cannot be dealt by a cost of 0 or less");
  if (costs.size() > kMostTried || lanes > kMostLanesTried) return even;
  Dealer dealer(costs);
  const double best = dealer.longest({0, lanes}, 0, costs.size());
  double longest = 0;
  for (std::size_t i = 0; i < even.size(); ++i) longest = std::max(longest, even[i].count * costs[i]);
  if (longest <= best) return even;
  std::vector<LaneRange> dealt;
  dealer.deal({0, lanes}, 0, costs.size(), dealt);
  return dealt;
}

SampleRange lane_samples(std::uint64_t batch, Lane lanes, Lane lane) {
  TRIREME_CHECK(lane < lanes, "lane {} of {}", lane, lanes);
  const std::uint64_t size = batch / lanes;
  const std::uint64_t larger = batch % lanes;  // this many lanes have one sample more
  return {lane * size + std::min<std::uint64_t>(lane, larger), size + (lane < larger ? 1 : 0)};
}

namespace {

/// out[i] = a[i] + b[i]; `out` may be `a` or `b`.
TRIREME_SIMD void add(const float* a, const float* b, float* out, std::size_t count) {
  TRIREME_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

/// `tree_sum` of three or more. A function of its own so that only these calls use so much stack.
[[gnu::noinline]] void sum_blocks(Lane lanes, std::span<const Partial> partials, std::size_t begin,
                                  std::span<float> out) {
  const std::size_t block = FoldOrder::block_bytes(partials.size(), out.size_bytes()) / sizeof(float);
  const FoldOrder order(lanes, partials);
  const float* stack[FoldOrder::kLevels];
  alignas(64) float space[FoldOrder::kLevels][FoldOrder::kLargeBlock / sizeof(float)];
  for (std::size_t done = 0; done < out.size(); done += block) {
    const std::size_t count = std::min(block, out.size() - done);
    order.walk([&](std::size_t part, std::size_t level) { stack[level] = partials[part].values + begin + done; },
               [&](std::size_t level, bool is_last) {
                 float* sum = is_last ? out.data() + done : space[level];
                 add(stack[level], stack[level + 1], sum, count);
                 stack[level] = sum;
               });
  }
}

}  // namespace

void tree_sum(Lane lanes, std::span<const Partial> partials, std::size_t begin, std::span<float> out) {
  TRIREME_CHECK(!partials.empty() && partials.back().lanes.end() <= lanes, "{} partial sums over {} lanes",
                partials.size(), lanes);
  if (out.empty()) return;
  if (partials.size() == 1) {
    std::memcpy(out.data(), partials[0].values + begin, out.size_bytes());
  } else if (partials.size() == 2) {  // only one order is possible
    add(partials[0].values + begin, partials[1].values + begin, out.data(), out.size());
  } else {
    sum_blocks(lanes, partials, begin, out);
  }
}

}  // namespace trireme
