#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collective/operation.h"

namespace trireme::collective {

/// Where the ranks are, as far as it matters for the choice.
struct Topology {
  std::uint32_t ranks = 1;
  std::vector<std::vector<Rank>> hosts;  ///< the ranks of each host; ranks that share no memory are hosts of their own

  bool one_host() const { return hosts.size() == 1; }
  bool no_shared_memory() const { return hosts.size() == ranks; }
};

/// Data up to this size is sent together with the call, or shown beside it in shared memory.
inline constexpr std::size_t kOneShotBytes = 16u << 10;

struct Choice {
  Algorithm algorithm = Algorithm::kDirect;
  std::string_view reason;  ///< a literal
};

/// Chooses how to do an all_reduce of `bytes` whose ranks hold partial sums of `lanes`; `shared` says that the data of
/// all ranks is in memory they share. A pure function of what all ranks know, so all choose the same. Throws
/// InvalidArgument if the requested algorithm is impossible here.
Choice choose_all_reduce(const Topology& topology, const ReduceOptions& options, std::span<const LaneRange> lanes,
                         std::size_t bytes, bool shared);

/// Returns whether each host's ranks hold a subtree of the summation tree, so that the host can sum it first.
bool hosts_are_subtrees(const Topology& topology, std::span<const LaneRange> lanes);

}  // namespace trireme::collective
