#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/autograd.h>
#include <torch/types.h>

#include "trireme/dist.h"

#include "dist/gradient_buckets.h"
#include "dist/gradient_guards.h"
#include "dist/lane_sums.h"
#include "dist/world.h"

namespace trireme::dist {

/// What else belongs to a step, where more than the optimizer does (State).
class StepOwner {
 public:
  virtual ~StepOwner() = default;

  /// All gradients are there. Waits for whatever else the step needs of the others; from its return on nothing depends
  /// on them. Throws PeerLost, Timeout; then the step is not made.
  virtual void complete_step() = 0;

  /// The parameters are new. Returns how many steps are made.
  virtual Step step_made() = 0;
};

class DistributedOptimizer::Impl {
 public:
  Impl(World::Impl& world, torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
       DistributedOptimizerOptions options);

  void synchronize();
  double clip_norm(double largest);
  void step();
  void zero_grad();
  torch::optim::Optimizer& inner() { return optimizer_; }
  Traffic traffic() { return channel_ ? channel_->ranks().traffic() : Traffic{}; }

  /// From now on gradients are those of lanes, and steps also `owner`'s; null: no longer.
  void belong_to(StepOwner* owner) { owner_ = owner; }

  /// Talks to the ranks of the world. `deal`: the lanes of each rank; empty = gradients belong to ranks. A collective
  /// call.
  void connect(const std::vector<LaneRange>& deal);

  /// Forgets them, with the gradients that are on their way.
  void disconnect();

  /// The lanes of a step: see LaneSums.
  void begin_step(Lane lanes) { lanes_->begin_step(lanes); }
  void begin_lane(double weight);
  void end_lane();

  collective::Communicator& ranks() { return channel_->ranks(); }
  bool averages() const { return options_.op == ReduceOp::kAverage; }

  /// Returns the name of a parameter; empty if it is none of those that are trained.
  std::string name_of(const torch::Tensor& parameter) const;

 private:
  struct Shared {  // with the hooks, which torch may keep longer than we live
    Impl* owner;
  };

  void check_agreement(bool compare_values);
  void warn_of_different_starts();
  void give_gradients_back();
  void on_gradient(std::size_t i);

  World::Impl& world_;
  Step steps_ = 0;
  torch::optim::Optimizer& optimizer_;
  DistributedOptimizerOptions options_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  GradientGuards guards_;                   // of those that have left
  std::vector<std::uint32_t> passes_;       // by parameter: backward passes since the last step, or in this lane
  bool synchronized_ = false;               // nothing was added to gradients since
  std::optional<std::uint32_t> own_start_;  // a checksum of the values, if other ranks had others at the beginning
  StepOwner* owner_ = nullptr;
  std::optional<Channel> channel_;  // these three while connected
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<LaneSums> lanes_;  // null where gradients belong to ranks
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<torch::autograd::Node>> hooks_;
};

}  // namespace trireme::dist
