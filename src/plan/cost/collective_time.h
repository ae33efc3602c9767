#pragma once

#include "plan/placement.h"

namespace trireme::plan {

/// What connects two ranks: time = latency + bytes / bandwidth.
struct Link {
  double bytes_per_second = 12.5e9;
  double latency = 20e-6;  ///< seconds

  double seconds(double bytes) const { return bytes > 0 ? latency + bytes / bytes_per_second : 0; }
};

/// What connects the ranks of a host, and those of different hosts. Each rank has its own link.
struct Links {
  Link host{32e9, 5e-6};
  Link network{12.5e9, 20e-6};
};

enum class CollectiveAlgorithm : std::uint8_t {
  kDirect,  ///< each rank owns a slice and talks to all others at once: two rounds (Trireme's, which sums in lane
            ///< order)
  kRing,    ///< neighbours only: twice as many rounds as there are other ranks, the same bytes
};

/// Seconds until each of `ranks` has its slice of the sum of `bytes`: (n-1)/n · bytes / bandwidth, and one round of
/// latency (direct) or n-1 (ring). An all-gather of `bytes` takes as long.
double reduce_scatter_seconds(const Link& link, std::uint32_t ranks, double bytes,
                              CollectiveAlgorithm algorithm = CollectiveAlgorithm::kDirect);

/// Seconds until all have the whole sum: a reduce-scatter and an all-gather.
double all_reduce_seconds(const Link& link, std::uint32_t ranks, double bytes,
                          CollectiveAlgorithm algorithm = CollectiveAlgorithm::kDirect);

/// The same for a group that lies on hosts as `span` says. Across hosts with several ranks each it is done in three
/// parts: a reduce-scatter within the host, the sum of the slices between hosts, an all-gather within the host.
double all_reduce_seconds(const Links& links, const GroupSpan& span, double bytes);
double reduce_scatter_seconds(const Links& links, const GroupSpan& span, double bytes);

}  // namespace trireme::plan
