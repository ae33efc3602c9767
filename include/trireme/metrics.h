#pragma once

#include <cstdint>

#include "trireme/types.h"

namespace trireme {

/// One line of metrics over all workers. The rows of two runs that compute the same are the same, but for their times
/// and speeds.
struct MetricsRow {
  Step step = 0;  ///< steps made; loss and accuracy are those of the steps since the row before, or since a resume
  double epoch = 0;
  std::uint64_t samples = 0;  ///< since the beginning of the run
  double loss = 0;
  double accuracy = 0;
  double samples_per_s = 0;  ///< since the row before
  double lr = 0;
  Step clock_min = 0;
  Step clock_max = 0;
  double time = 0;        ///< when its last step was made: seconds since 1970
  double interval_s = 0;  ///< since the row before
  double seconds = 0;     ///< of training, since the beginning of the run
};

}  // namespace trireme
