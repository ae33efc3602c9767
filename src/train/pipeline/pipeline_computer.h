#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trireme/layers.h"
#include "trireme/trainer.h"

#include "base/spans.h"
#include "plan/schedule/schedule.h"
#include "train/compute/gradient_sink.h"
#include "train/compute/lane_statistics.h"
#include "train/compute/work_stream.h"
#include "train/pipeline/activation_messages.h"
#include "train/pipeline/stage_buffers.h"
#include "train/pipeline/stage_run.h"
#include "train/pipeline/tied_gradients.h"

namespace trireme::parallel {

struct PipelineOptions {
  plan::Schedule schedule = {};         ///< with as many micro-batches as this data rank has lanes
  std::vector<LayerRange> stages = {};  ///< of the whole network: see cut_stages
  bool recompute = false;               ///< keep only each layer's input, and compute the rest again in backward
};

/// What LaneComputer is for a whole model, for the stages that one rank of a pipeline has: all ranks of the dimension
/// pipe call `compute` with the same lanes, each of which is a micro-batch, and each gets the gradients of its own
/// parameters. They have the bits that LaneComputer gives for the whole model, whatever the schedule and the cut.
class PipelineComputer {
 public:
  /// A collective call of all ranks of the pipeline. `layers` are this rank's (make_stages); `options`, `ranks` and
  /// `spans` (may be null) outlive it. One per view: after a failure of the group another is made. Throws
  /// InvalidArgument, naming both ranks where they disagree: if the schedule is unsound or is not for these stages, if
  /// a parameter has two owners without a tie, if the task has no halves (Task::inputs), or with accumulate > 1.
  PipelineComputer(std::shared_ptr<const MadeLayers> layers, PipelineOptions pipeline, const TrainOptions& options,
                   collective::Communicator& ranks, SpanRecorder* spans = nullptr);
  ~PipelineComputer();

  /// The parameters that this rank owns, in the order in which a sink counts them: all trainable ones of its module but
  /// copies of tied ones that another rank owns.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  const std::shared_ptr<torch::nn::Module>& module() const { return layers_->module(); }

  /// Computes the lanes of `work`, of which every rank has the same, with their samples. The statistics are on the rank
  /// that has the last stage; on the others they are empty. Throws InvalidArgument naming step and lane if a loss is
  /// not finite (there; the others learn that a peer gave up), and as Links does.
  std::vector<LaneStatistics> compute(const StepWork& work, GradientSink& sink);

  /// See LaneComputer.
  void rewind() { buffers_.rewind(); }

  /// Gives the new values of tied parameters to the ranks that have copies: after each update, and after state was
  /// restored. A collective call of all ranks of the pipeline.
  void share_tied_values() { ties_->share_values(); }

  /// Sends batches, the same on all ranks, through the stages without gradients; may be called before any training.
  /// Returns the network's outputs for them on the rank that has the last stage, and nothing elsewhere. The module is
  /// in the mode that the caller put it in.
  std::vector<torch::Tensor> forward(std::span<const Batch> batches);

  /// The same, and what `task`, in two halves, makes of the outputs.
  std::vector<Outcome> evaluate(std::span<const Batch> batches, const Task& task);

  bool has_last_stage() const;

  /// What the last `compute` did.
  const pipeline::RunCounts& counts() const { return counts_; }

 private:
  class Step;
  class Forward;

  /// Returns what `work_of_rank` does; if it throws, no other rank waits for this one any longer.
  template <typename Work>
  auto or_abort(const Work& work_of_rank);

  std::shared_ptr<const MadeLayers> layers_;
  PipelineOptions pipeline_;
  const TrainOptions& options_;
  collective::Communicator& ranks_;
  SpanRecorder* const spans_;
  std::vector<std::optional<StageRun>> stages_;  // by stage; nullopt: not here
  std::vector<NamedParameter> parameters_;
  std::vector<torch::Tensor> tied_;  // by tie: what is here of it, or undefined
  StageBuffers buffers_;
  std::unique_ptr<TiedGradients> ties_;
  KnownLayouts layouts_;
  std::map<std::uint32_t, plan::Schedule> forward_schedules_;  // by the number of batches
  pipeline::RunCounts counts_;
};

}  // namespace trireme::parallel
