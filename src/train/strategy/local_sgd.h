#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "trireme/strategy.h"

#include "base/spans.h"
#include "collective/communicator.h"
#include "elastic/buffers.h"
#include "elastic/state_sync.h"
#include "train/strategy/host_parameters.h"
#include "train/strategy/strategy.h"

namespace trireme {

struct LocalSgdOptions {
  ParameterUpdates updates;  ///< of the workers' own steps
  cluster::LocalSgdChoice choice;
  BufferPolicy buffers = BufferPolicy::kAverage;  ///< when workers meet; in between each has its own
  SpanRecorder* spans = nullptr;                  ///< what its work takes; null: nobody wants to know
};

/// Every worker trains for itself, on the samples of its own lanes, and meets the others every few steps: parameters
/// are then averaged (Stich 2018, "Local SGD Converges Fast and Communicates Little"), or go through an outer
/// optimizer, or are drawn to a common centre; see cluster::LocalSgdChoice. The state of the workers' own optimizers
/// stays theirs; moving averages are averaged too. Parameters are pruned in the first step after a meeting, in which
/// all workers prune the same.
///
/// Workers take the same number of steps and stop together: who wants to stop says so when they meet.
class LocalSgd final : public Strategy {
 public:
  /// Talks to nobody yet. `ranks` are the job's workers; it outlives this object. Throws InvalidArgument as
  /// HostParameters.
  LocalSgd(collective::Communicator& ranks, const Model& model, LocalSgdOptions options);

  /// Goes on from what all agreed on when they met last: steps that a worker has taken alone since then are taken
  /// again.
  Step sync_state(const Restore& restore) override;
  void begin(const StepInfo& info) override;
  std::span<float> gradient(std::size_t i) override { return gradients_[i]; }
  void add(std::size_t /*i*/) override {}
  float loss_scale() const override { return parameters_.loss_scale(); }
  std::optional<optim::LossScale> adaptive_scale() const override { return parameters_.adaptive_scale(); }
  StepOutcome finish() override;

  /// Shows what all agreed on when they met last, until the next step begins, which goes on from this worker's own.
  void refresh() override;

  /// The workers meet for the last time: their parameters are then the same.
  void leave() override;

  /// Only when the workers have just met. The state of the optimizer is this worker's own.
  std::optional<TrainingState> state(const CheckpointRequest& request) override;
  void interrupt(const std::string& reason) override { ranks_.abort(reason); }
  std::optional<Communication> communication() const override;

  /// About how much a meeting after every step would have moved: what summing gradients in each step costs.
  std::uint64_t every_step_bytes() const;

 private:
  void take_own_step();
  Step pruning_step() const;
  bool average();
  void merge(std::size_t i, std::span<float> mean);
  void sync_other_buffers();
  std::uint64_t moved_bytes() const;

  collective::Communicator& ranks_;
  LocalSgdOptions options_;
  Model model_;
  HostParameters parameters_;
  ModelBuffers buffers_;
  std::vector<std::vector<float>> gradients_;    // by parameter
  std::vector<std::span<const float>> sums_;     // the same, to read
  std::vector<std::vector<float>> agreed_;       // by parameter: common to all since they met; the centre
  std::vector<std::vector<float>> outer_state_;  // by parameter
  std::vector<std::vector<float>> own_;          // by parameter, while the agreed ones are shown; else empty
  std::shared_ptr<std::byte> memory_;  // what is averaged: parameters, buffers, the wishes to stop and to regroup
  std::span<float> flat_;              // it
  StepInfo info_;
  bool stop_wanted_ = false;
  bool regroup_wanted_ = false;
  bool left_ = false;
  Position at_;
  Position agreed_at_;  // when the workers met last
  Step since_ = 0;      // steps since then
  Step meetings_ = 0;
  std::uint64_t meeting_bytes_ = 0;
};

}  // namespace trireme
