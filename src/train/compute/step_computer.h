#pragma once

#include <vector>

#include "train/compute/gradient_sink.h"
#include "train/compute/lane_statistics.h"
#include "train/compute/work_stream.h"

namespace trireme {

/// Computes the gradients of a worker's lanes: of the whole model, or of the part of it that the worker has.
class StepComputer {
 public:
  virtual ~StepComputer() = default;

  /// Gives the gradients to `sink`, as it describes. Returns the statistics by lane; empty where another worker, which
  /// computes the same lanes, has them. Throws InvalidArgument naming step and lane if a loss is not finite.
  virtual std::vector<LaneStatistics> compute(const StepWork& work, GradientSink& sink) = 0;

  /// The step that `compute` was last called for was given up: the model's buffers are again what they were before it.
  /// Not after a step that was made.
  virtual void rewind() = 0;
};

}  // namespace trireme
