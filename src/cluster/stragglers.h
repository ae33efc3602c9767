#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/numbers/lanes.h"

namespace trireme::cluster {

/// A worker's recent time for a lane.
struct LanePace {
  std::uint32_t slot = 0;
  double seconds = 0;  ///< 0 = not known
};

/// A worker that is slower than most.
struct Straggler {
  std::uint32_t slot = 0;
  double factor = 1;  ///< its time for a lane relative to the median
  double for_s = 0;   ///< for how long it has been one
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Straggler, slot, factor, for_s)
};

/// Returns the workers that take at least `from` times as long as the median worker (of two: the faster). Those in
/// `known` stay stragglers down to a slightly smaller factor, so that none comes and goes with every measurement.
std::vector<Straggler> find_stragglers(std::span<const LanePace> paces, std::span<const Straggler> known,
                                       double from = 1.5);

/// Returns "worker 1 (3.2 times the median)".
std::string describe(std::span<const Straggler> stragglers);

/// Returns the seconds per lane of all workers, by rank, if dealing lanes by them would shorten a step enough to be
/// worth a change of view; else empty. `dealt` is the current deal.
std::vector<double> better_costs(Lane lanes, std::span<const LaneRange> dealt, std::span<const double> lane_seconds);

}  // namespace trireme::cluster
