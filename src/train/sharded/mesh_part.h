#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/layers.h"
#include "trireme/trainer.h"

#include "base/mutex.h"
#include "base/spans.h"
#include "collective/communicator.h"
#include "plan/schedule/schedule.h"
#include "train/compute/lane_computer.h"
#include "train/compute/step_computer.h"
#include "train/evaluator.h"
#include "train/pipeline/pipeline_computer.h"
#include "train/sharded/fit_mesh.h"

namespace trireme {

/// The part of a model that one worker has in the mesh of a view: some of the layers (pipe), a slice of each (tensor),
/// and how it computes them together with the others that share its samples.
class MeshPart final : public StepComputer {
 public:
  /// `lanes` are this worker's. A collective call of all workers. All that is referred to outlives it. Throws
  /// InvalidArgument, on all workers alike, if the network cannot be divided like this; PeerLost, Timeout.
  MeshPart(collective::Communicator& world, const FittedMesh& mesh, const Model& network, LaneRange lanes,
           const TrainOptions& options, SpanRecorder* spans);
  ~MeshPart() override;

  /// What is here: its module has the parameters of these layers alone. Of a spare worker it has none.
  const Model& model() const { return model_; }

  /// The parameters that belong to this worker, with those that share its layers in the dimension data: no copies of
  /// what another stage has, too.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  const std::map<std::string, ParameterSlice>& slices() const { return slices_; }

  /// Whether this worker speaks for its lanes: of those that compute them it has the loss.
  bool reports() const { return reports_; }

  /// Whether the samples of its lanes are counted here: by one of those that compute them.
  bool counts_samples() const { return counts_samples_; }

  /// Whether what all workers of the dimension tensor have is counted here.
  bool counts_whole() const { return at_ && at_->tensor == 0; }

  std::vector<LaneStatistics> compute(const StepWork& work, GradientSink& sink) override;
  void rewind() override;

  /// The owners' parameters are new: stages that have a copy of one get it. A collective call of the pipeline.
  void share_tied_values();

  void place_evaluation(EvaluationPlace& place);

  void abort(const std::string& reason);

 private:
  std::optional<Outcome> evaluate(const Task& task, const Batch& batch);
  plan::Schedule schedule_for(std::uint32_t micro_batches) const;
  void make_stages(const Model& network, const LayerPlace& place, LaneRange lanes, SpanRecorder* spans);

  const TrainOptions& options_;
  const plan::Mesh mesh_;
  std::optional<plan::Coordinates> at_;                  // nullopt: spare
  std::unique_ptr<collective::Communicator> stages_;     // the dimension pipe, if it is divided
  std::unique_ptr<collective::Communicator> slices_of_;  // the dimension tensor, if it is divided
  std::unique_ptr<parallel::TensorGroup> tensor_;        // null: one tensor lane
  Model model_;
  std::vector<NamedParameter> parameters_;
  std::map<std::string, ParameterSlice> slices_;
  bool reports_ = false;
  bool counts_samples_ = false;
  std::unique_ptr<parallel::PipelineComputer> pipeline_;  // if the dimension pipe is divided
  std::optional<LaneComputer> whole_;                     // else
};

}  // namespace trireme
