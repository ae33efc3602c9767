#pragma once

#include <optional>
#include <vector>

#include "trireme/trainer.h"

#include "base/spans.h"
#include "elastic/buffers.h"
#include "elastic/summation_schedule.h"
#include "train/compute/gradient_hooks.h"
#include "train/compute/gradient_sink.h"
#include "train/compute/work_stream.h"

namespace trireme {

/// What a lane of one step gave.
struct LaneStatistics {
  double loss_sum = 0;  ///< over samples
  Metrics metrics = {};
  std::uint64_t samples = 0;
};

/// Computes the gradients of a worker's lanes, one lane after the other, sums them along the lanes' tree and gives them
/// to the sink while the last backward still runs. The model's buffers go the same way if the sink wants them.
class LaneComputer {
 public:
  /// `spans` (may be null) outlives this object.
  LaneComputer(const Model& model, const TrainOptions& options, SpanRecorder* spans = nullptr);

  /// Returns the statistics by lane. Throws InvalidArgument naming step and lane if a loss is not finite.
  std::vector<LaneStatistics> compute(const StepWork& work, GradientSink& sink);

  /// The step that `compute` was last called for was given up: the model's buffers are again what they were before it.
  void rewind() { buffers_.rewind(); }

 private:
  void compute_lane(const data::Item& item, LaneStatistics& statistics, const GradientHooks::OnGradient& on_gradient);
  torch::Tensor forward(const data::Item& item, SampleRange part, LaneStatistics& statistics);
  torch::Tensor buffer(std::size_t level, std::size_t parameter, GradientSink& sink);
  void store(std::size_t level, std::size_t parameter, const torch::Tensor& gradient, GradientSink& sink);
  void add(std::size_t level, std::size_t parameter, GradientSink& sink);

  Model model_;
  const TrainOptions& options_;
  SpanRecorder* const spans_;
  std::vector<torch::Tensor> parameters_;
  GradientHooks hooks_;
  LaneBuffers buffers_;
  std::vector<std::vector<torch::Tensor>> scratch_;  // level - 1, parameter: sums of right subtrees
};

}  // namespace trireme
