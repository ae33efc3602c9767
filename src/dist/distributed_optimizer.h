#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "dist/gradient_pieces.h"
#include "dist/world.h"

namespace trireme::dist {

using NamedParameters = torch::OrderedDict<std::string, torch::Tensor>;

struct DistributedOptimizerOptions {
  codec::Spec compression;             ///< how float32 gradients travel; with error feedback if it says so
  std::uint32_t accumulate = 1;        ///< backward passes per step; their gradients add up, as always in torch
  ReduceOp op = ReduceOp::kAverage;    ///< or kSum
  std::size_t piece_bytes = 4u << 20;  ///< gradients are sent when this much of them is ready
};

/// An optimizer whose `step` takes the mean of all ranks' gradients.
///
///   torch::optim::SGD sgd(net->parameters(), 0.1);
///   dist::DistributedOptimizer optimizer(*world, sgd, net->named_parameters());
///   ...
///   optimizer.zero_grad();
///   loss.backward();   // gradients leave while it runs
///   optimizer.step();
///
/// Ranks do not have to use the same parameters in a step: what a rank did not use counts as a gradient of zero, and
/// after `step` every parameter has one. Sparse gradients are made dense. On the CPU, gradients lie in memory that the
/// ranks of a machine share from the first step on, and are summed there.
///
/// Constructed on all ranks in the same order; it does not change parameters: see broadcast_parameters. Used by the
/// thread that owns `world`; both, and `optimizer`, outlive it.
class DistributedOptimizer {
 public:
  /// Throws InvalidArgument if `optimizer` trains something that is not among `parameters` (ranks would drift apart),
  /// or the ranks' parameters differ. Those that want no gradient are left out.
  DistributedOptimizer(World& world, torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                       DistributedOptimizerOptions options = {});
  ~DistributedOptimizer();

  /// Makes each gradient the mean over the ranks that have not joined. Between backward and `step`, for those who want
  /// to see or clip gradients; else `step` does it. Throws as World::all_reduce does.
  void synchronize();

  /// One update of the parameters.
  void step();

  /// Throws InvalidArgument between backward and `step`: gradients are on their way.
  void zero_grad();

  torch::optim::Optimizer& inner() { return optimizer_; }

  /// What gradients have moved so far.
  collective::Traffic traffic() { return channel_.ranks().traffic(); }

 private:
  struct Shared;  // with the hooks, which torch may keep longer than we live

  std::vector<torch::Tensor> agree_on(const NamedParameters& named);
  void on_gradient(std::size_t i);

  torch::optim::Optimizer& optimizer_;
  DistributedOptimizerOptions options_;
  World::Channel channel_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::uint32_t> passes_;  // by parameter: backward passes since the last step
  bool synchronized_ = false;          // nothing was added to gradients since
  GradientPieces pieces_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<torch::autograd::Node>> hooks_;
};

}  // namespace trireme::dist
