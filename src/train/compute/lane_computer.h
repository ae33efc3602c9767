#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trireme/trainer.h"

#include "base/spans.h"
#include "elastic/buffers.h"
#include "elastic/summation_schedule.h"
#include "train/compute/gradient_hooks.h"
#include "train/compute/gradient_sink.h"
#include "train/compute/lane_statistics.h"
#include "train/compute/recorded_lane.h"
#include "train/compute/step_computer.h"
#include "train/compute/work_stream.h"

namespace trireme {

/// Computes the gradients of a worker's lanes, one lane after the other, sums them along the lanes' tree and gives them
/// to the sink while the last backward still runs. The model's buffers go the same way if the sink wants them.
class LaneComputer final : public StepComputer {
 public:
  /// `spans` (may be null) outlives this object.
  LaneComputer(const Model& model, const TrainOptions& options, SpanRecorder* spans = nullptr);

  std::vector<LaneStatistics> compute(const StepWork& work, GradientSink& sink) override;
  void rewind() override { buffers_.rewind(); }

 private:
  std::vector<const void*> memory_of(GradientSink& sink) const;
  Lane parts_of(const data::Item& item) const;
  using Ready = RecordedLanes::Ready;
  using Take = std::function<void(std::size_t parameter, const torch::Tensor& gradient, const Ready& ready)>;

  void compute_lane(const data::Item& item, RecordedLanes::Key key, LaneStatistics& statistics, const Take& take,
                    const Ready& ready);
  ComputedPart forward(const data::Item& item, Lane part, SampleRange range, const Batch& samples);
  void backward(ComputedPart& computed, Step step, bool last, const Take& take, const Ready& ready);
  void note(ComputedPart& computed, const data::Item& item, LaneStatistics& statistics);
  double loss_factor(SampleRange part) const;
  torch::Tensor buffer(std::size_t level, std::size_t parameter, GradientSink& sink);
  void store(std::size_t level, std::size_t parameter, const torch::Tensor& gradient, GradientSink& sink);
  void add(std::size_t level, std::size_t parameter, GradientSink& sink);

  Model model_;
  const TrainOptions& options_;
  SpanRecorder* const spans_;
  float loss_scale_ = 1;  // of the present step
  bool late_ = false;     // the losses are read when the GPU has all its work; gradients do not leave before
  std::vector<torch::Tensor> parameters_;
  GradientHooks hooks_;
  LaneBuffers buffers_;
  std::vector<std::vector<torch::Tensor>> scratch_;  // level - 1, parameter: sums of right subtrees
  RecordedLanes recorded_;
};

}  // namespace trireme
