#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/spans.h"
#include "collective/communicator.h"
#include "collective/pending_operation.h"
#include "elastic/buffer_sync.h"
#include "job/job_session.h"
#include "train/sharded/commit_vote.h"
#include "train/sharded/layer_gathers.h"
#include "train/sharded/mesh_part.h"
#include "train/sharded/sharded_parameters.h"
#include "train/sharded/state_exchange.h"
#include "train/sharded/view_groups.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Workers that each hold a part of the state.
///
/// ZeRO: each worker owns a slice of the optimizer's state (stage 1), of the gradients (2) and of the parameters (3).
/// Gradients are summed where their slice is owned, the owner updates its slice of the parameters, and all get the new
/// ones: at once, or, in stage 3, layer by layer while they compute.
///
/// Mesh: where the model itself is divided (TrainOptions::mesh), all of this happens among the workers that have the
/// same part of it, the dimension data.
///
/// The same sums in the same order, and the same update, as with AllReduce: the same bits.
///
/// A step is committed by all or by none. When a worker has all sums of its slices it votes; when all votes are there
/// it updates. If a worker is lost in between, those who saw all votes are one step ahead of those who did not, but
/// these have their sums still: in the next view they make the update, too. What the lost worker owned is taken from
/// one that has the same if there is one, else all go back to the newest checkpoint.
class Sharded final : public Strategy {
 public:
  /// Talks to nobody yet. All that is referred to outlives this object; `spans` may be null. Throws InvalidArgument if
  /// the options contradict each other, or the model cannot be divided so.
  Sharded(JobSession& job, const Model& model, const TrainOptions& options, SpanRecorder* spans,
          std::size_t bucket_bytes = 4u << 20);
  ~Sharded() override;

  Step sync_state(const Restore& restore) override;
  std::optional<std::vector<LaneRange>> deal() const override { return groups_->lanes(); }
  StepComputer* computer() override { return part_.get(); }
  bool reports() const override { return !part_ || part_->reports(); }
  void begin(const StepInfo& info) override;
  std::span<float> gradient(std::size_t i) override;
  void add(std::size_t i) override;
  std::optional<std::span<float>> buffer_sums() override;
  float loss_scale() const override { return loss_scale_[0]; }
  std::optional<optim::LossScale> adaptive_scale() const override;
  StepOutcome finish() override;
  void give_up(StepComputer& computer) override;
  void skip_pass() override;
  Lane most_lanes() const override;
  void refresh() override;
  void place_evaluation(EvaluationPlace& place) override;
  void leave() override;
  std::optional<Model> collect() override;
  std::optional<TrainingState> state(const CheckpointRequest& request) override;
  void interrupt(const std::string& reason) override;
  std::optional<Communication> communication() const override;
  std::optional<HeldBytes> held() const override;

 private:
  /// Of one bucket, in one step.
  struct Reduction {
    collective::PendingOperation within;
    collective::PendingOperation across;
  };

  bool divides_model() const { return options_.mesh.divides_model(); }
  const Model& model_here() const { return part_ ? part_->model() : model_; }
  std::vector<NamedParameter> parameters_here() const;
  std::vector<NamedParameter> others_of(const Model& model);
  std::vector<std::uint32_t> layers_of_parameters() const;
  StatePart held_part();
  void enter_groups();
  void exchange_state(const Restore& restore);
  std::unique_ptr<ShardedParameters> make_parameters() const;
  void commit(const CommitInput& input);
  void start(std::size_t bucket);
  void start_across();
  void send_across(std::size_t bucket);
  void await_bucket(std::size_t bucket);
  void await_sums();
  void share_parameters();

  JobSession& job_;
  const TrainOptions& options_;
  SpanRecorder* const spans_;
  const std::size_t bucket_bytes_;
  const ParameterUpdates updates_;
  const ZeroStage stage_;
  const std::uint32_t shards_;  // that are wanted
  Model model_;                 // the caller's; where the model is divided it may have no parameters
  std::unique_ptr<ViewGroups> groups_;
  std::unique_ptr<MeshPart> part_;                 // where the model is divided
  std::unique_ptr<MeshPart> old_part_;             // that of `parameters_`, until their state is moved to `part_`
  std::unique_ptr<ShardedParameters> parameters_;  // null before the first view
  std::unique_ptr<StateExchange> tables_;          // who has what in the present view
  std::optional<LayerGathers> gathers_;            // in stage 3
  std::optional<BufferSync> buffer_sync_;          // none: alone with this part of the model
  std::array<float, optim::LossScale::kFloats> loss_scale_;
  StepInfo info_;
  Position at_;
  CommitInput last_;                                  // the last commit that was made here
  bool in_step_ = false;                              // begun, and the update is not made
  bool prepared_ = false;                             // and all sums of the step are here
  StepComputer* undecided_ = nullptr;                 // has computed a step that may be made in the next view
  std::vector<std::size_t> missing_;                  // by bucket: gradients that are not there yet
  std::size_t started_ = 0;                           // buckets on their way in this step
  std::size_t across_ = 0;                            // and on their way to the other shard groups, or past that
  std::vector<std::vector<float>> overflow_;          // by parameter: gradients whose place is not free yet
  std::vector<std::optional<Reduction>> reductions_;  // by bucket; last: they work on the memory above
  Mutex mutex_;                                       // for interrupt
};

}  // namespace trireme
