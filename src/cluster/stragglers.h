#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/lanes.h"

namespace trireme::cluster {

/// How long a worker takes for a lane, of late.
struct LanePace {
  std::uint32_t slot = 0;
  double seconds = 0;  ///< 0 = not known
};

/// A worker that is slower than most.
struct Straggler {
  std::uint32_t slot = 0;
  double factor = 1;  ///< its time for a lane, by the median's
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Straggler, slot, factor)
};

/// Who takes `from` times as long as the median worker (of two: the faster), or more; who is in `known` already is one
/// of them down to a little less, so that nobody comes and goes with every measurement.
std::vector<Straggler> find_stragglers(std::span<const LanePace> paces, std::span<const Straggler> known,
                                       double from = 1.5);

/// "worker 1 (3.2 times the median)".
std::string describe(std::span<const Straggler> stragglers);

/// Whether other shares of the lanes would make a step so much shorter that it is worth a change: the seconds per lane
/// of all workers, by rank, to deal them out by; empty if not. `dealt` are the present ones.
std::vector<double> better_costs(Lane lanes, std::span<const LaneRange> dealt, std::span<const double> lane_seconds);

}  // namespace trireme::cluster
