#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/spans.h"
#include "job/job_session.h"
#include "ps/client.h"
#include "tensor/buckets.h"
#include "train/strategy/parameter_updates.h"
#include "train/strategy/server_buffers.h"
#include "train/strategy/strategy.h"

namespace trireme {

struct ParameterServerOptions {
  ParameterUpdates updates;
  ps::Consistency consistency;
  Lane lanes = 1;
  BufferPolicy buffers = BufferPolicy::kAverage;
  codec::Spec codec = {};               ///< how gradients travel
  std::size_t bucket_bytes = 4u << 20;  ///< gradients are sent when this much of them is ready
  Step checkpoint_every = 0;            ///< bsp: servers keep these versions for a while
  SpanRecorder* spans = nullptr;        ///< what its work takes; null: nobody wants to know
};

/// Parameters live on servers; workers push gradients and pull parameters. On the CPU the module's parameters are
/// views of the memory that pulls write to; on a GPU they are copied there after each step.
///
/// In another view the servers have the last word: what they hold is pulled. With bsp a step may have been interrupted
/// when some chunks had made it and others not; then the workers still have the parameters from before, give them to
/// those who are new, and push that step again. Where parameters are lost with their servers, all go back to the last
/// checkpoint.
///
/// Checkpoints: each server writes what it holds, if all of them know where to; else the chief fetches it all.
class ParameterServer final : public Strategy {
 public:
  /// Talks to nobody yet. `job` outlives this object. Throws InvalidArgument if the model has nothing to train, or
  /// parameters that are not float32.
  ParameterServer(JobSession& job, const Model& model, ParameterServerOptions options);

  /// Gives the module parameters of its own again, with their last values.
  ~ParameterServer() override;

  Step sync_state(const Restore& restore) override;
  void begin(const StepInfo& info) override;
  std::span<float> gradient(std::size_t i) override;
  void add(std::size_t i) override;
  std::optional<std::span<float>> buffer_sums() override;
  float loss_scale() const override { return loss_scale_[0]; }
  std::optional<optim::LossScale> adaptive_scale() const override;
  StepOutcome finish() override;
  void refresh() override;
  void pause() override;
  void leave() override;
  std::optional<TrainingState> state(const CheckpointRequest& request) override;
  void interrupt(const std::string& reason) override;
  std::optional<Communication> communication() const override;
  std::optional<HeldBytes> held() const override;

 private:
  void enter_view();
  void adopt_memory();
  void provide(const Restore& restore, bool untouched);
  void await_values();
  void share_non_trainable();
  Step complete_step(Step oldest, const Restore& restore);
  std::optional<Step> version_to_save(const CheckpointRequest& request);
  std::optional<TrainingState> save_on_servers(Step version, const CheckpointRequest& request);
  std::optional<TrainingState> fetch_state(Step version);
  std::vector<NamedParameter> tensors_of(ps::TablesState& state) const;
  std::vector<NamedParameter> tensors_elsewhere() const;
  std::vector<NamedParameter> tensors_here();
  Step steps_of(Step version) const { return ps::steps_of(options_.consistency, options_.lanes, version); }
  void take_parameters();
  void show_averages();
  void announce_pruning();
  void push_own();
  void show_scale(std::span<const float> table);
  bool scales() const { return options_.updates.loss_scale.dynamic; }
  /// In ssp and asp each worker's gradient is an update of its own, which it looks at before it leaves.
  bool judges_itself() const {
    return (options_.updates.clip_norm > 0 || scales()) && !options_.consistency.synchronous();
  }
  torch::Tensor host_view(std::size_t i);
  std::uint32_t buffer_table() const { return static_cast<std::uint32_t>(parameters_.size()); }  // behind the others
  std::uint32_t scale_table() const { return buffer_table() + (buffers_.any() ? 1 : 0); }        // the last one

  JobSession& job_;
  ParameterServerOptions options_;
  Model model_;
  ServerBuffers buffers_;
  std::vector<NamedParameter> parameters_;  // the module's
  std::vector<ParameterRule> rules_;        // of these
  Buckets buckets_;                         // of parameters (tables)
  StepInfo info_;
  std::array<float, optim::LossScale::kFloats> loss_scale_;  // what the servers hold, where it adapts
  Position at_;                                              // of the parameters that are here
  bool opened_ = false;                                      // the tables: also if that failed half-way
  bool adopted_ = false;                                     // the module's parameters lie in the client's memory
  ps::TablesState state_;                                    // of the last checkpoint, while it is copied
  Mutex mutex_;                                              // for interrupt; only the training thread sets the client
  std::unique_ptr<ps::Client> client_;
};

}  // namespace trireme
