#pragma once

// Training loops of your own on many processes, in the manner of Horovod: a plain LibTorch program plus these lines.
//
//   const auto world = trireme::dist::init();                              // rank(), size(), local_rank()
//   dist::broadcast_parameters(*world, *net);                              // all begin alike
//   dist::DistributedOptimizer optimizer(*world, sgd, net->named_parameters());
//   ... loss.backward(); optimizer.step(); ...                             // as always
//   world->finish();
//
// The whole program: examples/own_loop.cc. With Trainer (trainer.h) there is no need for any of it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "trireme/codec.h"
#include "trireme/collective.h"
#include "trireme/job.h"
#include "trireme/optimizer.h"

namespace trireme::dist {

class FusedReduce;

using collective::ReduceOp;
using collective::Traffic;

struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  /// How float32 values travel, for sums and averages. Without error feedback, which a single call has no memory for:
  /// see DistributedOptimizer.
  codec::Spec compression = {};
  std::string name = {};  ///< for messages; if ranks give different names, they mean different things, and are told so
};

/// An all_reduce on its way.
class Handle {
 public:
  /// Waits until it is done; the result, once for each tensor given. Throws what went wrong.
  std::vector<torch::Tensor> wait_all();
  torch::Tensor wait() { return wait_all().front(); }

  /// Whether `wait` would return, or throw, at once.
  bool poll() const;

 private:
  friend class World;
  explicit Handle(std::shared_ptr<FusedReduce> reduce) : reduce_(std::move(reduce)) {}
  std::shared_ptr<FusedReduce> reduce_;
};

/// All workers of a job as equals, for training loops of your own: tensors in, tensors out.
///
///   const auto world = trireme::dist::init();
///   const torch::Tensor mean = world->all_reduce(loss);
///   ...
///   world->finish();
///
/// Every call with tensors is collective: all ranks make the same calls in the same order, or hear of it
/// (InvalidArgument, naming two of them). Tensors may lie on any device (they travel through the host's memory), be of
/// any layout, and empty. PeerLost and Timeout end the group: see collective::Communicator.
///
/// A rank that has run out of work calls `join`, and the others go on without waiting for it: means are then over
/// those that contribute. Used by one thread.
class World {
 public:
  /// On ranks that are connected already; they outlive this object. `host` tells which of them share a machine. A
  /// collective call.
  explicit World(collective::Communicator& ranks, const std::string& host = this_host());

  /// All workers of `job`; its failure ends every wait here.
  explicit World(std::unique_ptr<Job> job);

  /// What was begun and not waited for is aborted. Says no goodbye: see `finish`.
  ~World();

  Rank rank() const;
  std::uint32_t size() const;
  Rank local_rank() const;                    ///< among the ranks of this machine: which GPU to take
  std::uint32_t local_size() const;           ///< ranks of this machine
  bool chief() const { return rank() == 0; }  ///< who prints and saves
  Job* job();                                 ///< null if made from a communicator
  collective::Communicator& communicator();   ///< what lies below; not while some have joined

  /// The mean (or what `options.op` says) of all ranks' tensors, which have the same shape. Means of integers are
  /// truncated. Throws InvalidArgument for types without arithmetic here (bool, complex).
  torch::Tensor all_reduce(const torch::Tensor& tensor, const ReduceOptions& options = {});
  void all_reduce_(torch::Tensor tensor, const ReduceOptions& options = {});  ///< in place

  /// Several at once, as one message for each type among them.
  std::vector<torch::Tensor> all_reduce(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});
  void all_reduce_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});

  /// Return at once. The tensor is not touched until `wait` (in place: it is then new; if nobody waits, undefined).
  Handle all_reduce_async(const torch::Tensor& tensor, const ReduceOptions& options = {});
  Handle all_reduce_async_(torch::Tensor tensor, const ReduceOptions& options = {});
  Handle all_reduce_async(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});
  Handle all_reduce_async_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});

  /// The ranks' tensors one after the other, along the first dimension, in which they may differ. Any type.
  torch::Tensor all_gather(const torch::Tensor& tensor, const std::string& name = {});

  /// The root's tensor. All give one of its shape and type. Any type.
  torch::Tensor broadcast(const torch::Tensor& tensor, Rank root = 0, const std::string& name = {});
  void broadcast_(torch::Tensor tensor, Rank root = 0, const std::string& name = {});  ///< in place

  struct Received {
    torch::Tensor tensor;            ///< what all ranks sent here, one after the other
    std::vector<std::int64_t> rows;  ///< how much of it is from each rank
  };
  /// Sends `rows[i]` rows of `tensor` (its first dimension) to rank i, or equally many to each. Any type.
  Received all_to_all(const torch::Tensor& tensor, std::vector<std::int64_t> rows = {}, const std::string& name = {});

  /// Nobody goes on before everybody is here, or has joined.
  void barrier();

  /// Means over all ranks, each weighted by its `weight` (such as its samples). All give the same keys.
  std::map<std::string, double> average(const std::map<std::string, double>& metrics, double weight = 1);
  double average(double value, double weight = 1, const std::string& name = {});

  /// This rank has no more work: it takes part in what the others do without contributing, until all have joined.
  /// Returns who did so last: their parameters saw every step, so broadcast_parameters from there before going on.
  Rank join();

  /// The good end: waits for the others, and tells the master that this worker is done. Nothing else may follow.
  void finish();

  /// The name of this machine.
  static std::string this_host();

 private:
  friend class Channel;
  friend class DistributedOptimizer;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Joins the job that this process was started for (see Job::join), or is alone. Blocks until all workers are here.
/// Throws as Job::join and Job::ranks do.
std::unique_ptr<World> init();

using NamedParameters = torch::OrderedDict<std::string, torch::Tensor>;

struct DistributedOptimizerOptions {
  codec::Spec compression = {};        ///< how float32 gradients travel; with error feedback if it says so
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

  torch::optim::Optimizer& inner();

  /// What gradients have moved so far.
  Traffic traffic() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Gives every rank the root's values of all tensors. All ranks give the same names, shapes and types. A collective
/// call; throws as World::broadcast_ does, naming the tensor.
void broadcast_parameters(World& world, const torch::OrderedDict<std::string, torch::Tensor>& named, Rank root = 0);

/// The same for all parameters, frozen ones too, and buffers of a module.
void broadcast_parameters(World& world, const torch::nn::Module& module, Rank root = 0);

/// Gives every rank the root's optimizer state (momentum, step counts, …) and settings (learning rates, …), whether it
/// has state of its own already or has never made a step. The ranks' optimizers are of one class and were made for
/// the same parameters in the same order. Any optimizer that torch can save. A collective call.
void broadcast_optimizer_state(World& world, torch::optim::Optimizer& optimizer, Rank root = 0);

struct LargeBatchOptions {
  std::uint32_t size = 1;    ///< how many times as large the batch is as the one the rate was found for: the workers
  double warmup_epochs = 5;  ///< over which the factor rises from 1 to `size`
  Step steps_per_epoch = 1;
};

/// The learning rate for a batch that grew with the number of workers (Goyal et al. 2017, "Accurate, Large Minibatch
/// SGD"): `size` times as high, reached gradually, since the first steps would not bear it; times `then`, which knows
/// nothing of this. Throws InvalidArgument.
optim::Schedule scale_by_size(const LargeBatchOptions& options, optim::Schedule then = optim::make_schedule({}));

/// Sets the learning rate of all parameter groups. Before each step, with a optim::Schedule: `set_learning_rate(sgd,
/// 0.1 * schedule(step))`.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

}  // namespace trireme::dist
