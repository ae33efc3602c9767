#include "collective/choice.h"

#include <bit>

#include "base/error.h"
#include "base/numbers/lanes.h"

namespace trireme::collective {
namespace {

constexpr std::uint32_t kFewRanks = 8;            // up to here all ranks can send to all
constexpr std::size_t kTreeBytes = 64u << 10;     // above this, bytes matter more than messages
constexpr std::size_t kRingFromBytes = 4u << 20;  // above this, the ring's many steps do not matter

bool each_single_lane(std::span<const LaneRange> lanes) {
  for (const LaneRange& range : lanes) {
    if (range.count != 1) return false;
  }
  return true;
}

/// Returns whether sums along a tree of ranks are in lane order: all ranks hold the same power of two of lanes.
bool rank_tree_is_lane_tree(std::span<const LaneRange> lanes) {
  if (each_single_lane(lanes)) return true;
  for (const LaneRange& range : lanes) {
    if (range.count != lanes.front().count || !std::has_single_bit(range.count)) return false;
  }
  return true;
}

void check_possible(const Topology& topology, const ReduceOptions& options, std::span<const LaneRange> lanes,
                    std::size_t bytes, bool shared) {
  const auto refuse = [&](const std::string& why) {
    fail<InvalidArgument>("all_reduce by {} is not possible here: {}", name_of(options.algorithm), why);
  };
  switch (options.algorithm) {
    case Algorithm::kOneShot:
      if (bytes > kOneShotBytes) refuse(fmt::format("{} bytes are more than {}", bytes, kOneShotBytes));
      if (!topology.one_host() && !topology.no_shared_memory()) refuse("some ranks share memory, others do not");
      return;
    case Algorithm::kInPlace:
      if (!topology.one_host() || !shared) refuse("the data of all ranks must lie in memory they share");
      return;
    case Algorithm::kHalvingDoubling:
      if (!std::has_single_bit(topology.ranks)) refuse(fmt::format("{} ranks are not a power of two", topology.ranks));
      return;
    case Algorithm::kHierarchical:
      if (!options.any_order && !hosts_are_subtrees(topology, lanes)) {
        refuse("the lanes of a host are not a subtree of the summation tree; allow any order, or place ranks in order");
      }
      return;
    default:
      return;
  }
}

}  // namespace

bool hosts_are_subtrees(const Topology& topology, std::span<const LaneRange> lanes) {
  for (const auto& ranks : topology.hosts) {
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      if (ranks[i] != ranks[i - 1] + 1) return false;
    }
    const Lane first = lanes[ranks.front()].first;
    if (!is_subtree(lanes.back().end(), {first, lanes[ranks.back()].end() - first})) return false;
  }
  return true;
}

Choice choose_all_reduce(const Topology& topology, const ReduceOptions& options, std::span<const LaneRange> lanes,
                         std::size_t bytes, bool shared) {
  if (options.algorithm != Algorithm::kAuto) {
    check_possible(topology, options, lanes, bytes, shared);
    return {options.algorithm, "asked for"};
  }
  if (topology.one_host()) {
    if (bytes <= kOneShotBytes) {
      return {Algorithm::kOneShot, "one host, small: one round"};
    }
    if (shared) return {Algorithm::kInPlace, "one host, data in shared memory: no copy"};
    return {Algorithm::kDirect, "one host, private memory: staged in blocks, each rank sums a slice"};
  }
  const bool few = topology.ranks <= kFewRanks;
  if (topology.no_shared_memory()) {
    if (bytes <= kOneShotBytes && few) return {Algorithm::kOneShot, "network, small, few ranks: one round"};
    if (bytes <= kTreeBytes && !few && rank_tree_is_lane_tree(lanes)) {
      return {Algorithm::kTree, "network, small, many ranks: few messages"};
    }
    if (options.any_order && !few && bytes >= kRingFromBytes) {
      return {Algorithm::kRing, "network, large, many ranks, any order allowed: neighbours only"};
    }
    return {Algorithm::kDirect, "network: two rounds, least traffic, in lane order"};
  }
  if (options.any_order || hosts_are_subtrees(topology, lanes)) {
    return {Algorithm::kHierarchical, "several hosts with several ranks: the network carries each sum once"};
  }
  return {Algorithm::kDirect, "several hosts whose lanes are no subtrees: direct keeps lane order"};
}

}  // namespace trireme::collective
