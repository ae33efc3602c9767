#pragma once

#include <cstdint>

#include "trireme/types.h"

namespace trireme {

/// One line of metrics over all workers.
struct MetricsRow {
  Step step = 0;
  double epoch = 0;
  std::uint64_t samples = 0;
  double loss = 0;
  double accuracy = 0;
  double samples_per_s = 0;
  double lr = 0;
  Step clock_min = 0;
  Step clock_max = 0;
  double seconds = 0;
};

}  // namespace trireme
