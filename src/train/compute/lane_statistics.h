#pragma once

#include <cstdint>

#include "trireme/metrics.h"

namespace trireme {

/// What a lane of one step gave.
struct LaneStatistics {
  double loss_sum = 0;  ///< over samples
  Metrics metrics = {};
  std::uint64_t samples = 0;
};

}  // namespace trireme
