#pragma once

#include <cstdint>

#include "plan/cost/calibration.h"
#include "plan/cost/model_cost.h"

namespace trireme::cli {

struct CalibrateOptions {
  plan::ModelCost model;
  plan::Precision precision = plan::Precision::kFp32;
  std::uint32_t threads = 1;  ///< of each process
  std::uint64_t most_samples = 16;
  double seconds = 2;  ///< for the layers, about
};

/// Measures this machine: the model's layers in as many trireme-worker processes at once as there are cores for, sums
/// between two processes in shared memory, free memory. Takes some seconds. Forks: the process must have no other
/// threads. Throws InvalidArgument if trireme-worker is not there or the model is not made of layers, Timeout, IoError.
plan::Calibration calibrate(const CalibrateOptions& options);

}  // namespace trireme::cli
