#pragma once

// Training loops of your own on many processes, in the manner of Horovod: a plain LibTorch program plus these lines.
//
//   const auto world = trireme::dist::init();                              // rank(), size(), local_rank()
//   dist::broadcast_parameters(*world, *net);                              // all start with the same values
//   dist::DistributedOptimizer optimizer(*world, sgd, net->named_parameters());
//   ... loss.backward(); optimizer.step(); ...                             // as always
//   world->finish();
//
// A few lines more, and the loop goes on when processes come, go and die: elastic.h. Programs that use Trainer
// (trainer.h) need none of it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "trireme/codec.h"
#include "trireme/collective.h"
#include "trireme/job.h"
#include "trireme/optimizer.h"

namespace trireme::dist {

class FusedReduce;
class ElasticLoop;
class State;

using collective::ReduceOp;
using collective::Traffic;

struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  /// How float32 values travel, for sums and averages. Without error feedback, which needs memory from one call to the
  /// next: see DistributedOptimizer.
  codec::Spec compression = {};
  std::string name = {};  ///< for messages; InvalidArgument if the ranks' names for a call differ
};

/// An all_reduce that was started in the background.
class Handle {
 public:
  /// Waits until it is done, and returns one result per tensor given. Throws its failure.
  std::vector<torch::Tensor> wait_all();
  torch::Tensor wait() { return wait_all().front(); }

  /// Returns whether `wait` would return, or throw, at once.
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
/// Every call with tensors is collective: all ranks make the same calls in the same order; otherwise they throw
/// InvalidArgument, which names two of them. Tensors may lie on any device (they travel through the host's memory), be
/// of any layout, and empty. PeerLost and Timeout end the group: see collective::Communicator.
///
/// A process that comes to a job which is at work already (elastic.h) has no ranks to talk to before it takes part:
/// calls with tensors throw InvalidArgument, and numbers are those it would have.
///
/// A rank that has run out of work calls `join`, and the others continue without waiting for it: means are then over
/// those that contribute. Not thread-safe.
class World {
 public:
  /// Uses `ranks`, which are already connected and must outlive this object. Ranks with the same `host` share a
  /// machine. A collective call.
  explicit World(collective::Communicator& ranks, const std::string& host = this_host());

  /// Uses all workers of `job`; its failure ends every wait here.
  explicit World(std::unique_ptr<Job> job);

  /// Aborts what was started and not waited for. Does not tell the master that this worker is done: see `finish`.
  ~World();

  Rank rank() const;
  std::uint32_t size() const;
  Rank local_rank() const;                    ///< among the ranks of this machine: which GPU to take
  std::uint32_t local_size() const;           ///< ranks of this machine
  bool chief() const { return rank() == 0; }  ///< the rank that prints and saves
  Job* job();                                 ///< null if made from a communicator
  collective::Communicator& communicator();   ///< the one below; do not use it while some ranks have joined

  /// Returns the mean (or what `options.op` says) of all ranks' tensors, which have the same shape. Means of integers
  /// are truncated. Throws InvalidArgument for types without arithmetic here (bool, complex).
  torch::Tensor all_reduce(const torch::Tensor& tensor, const ReduceOptions& options = {});
  void all_reduce_(torch::Tensor tensor, const ReduceOptions& options = {});  ///< in place

  /// Several at once, as one message for each type among them.
  std::vector<torch::Tensor> all_reduce(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});
  void all_reduce_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});

  /// Return at once. The input is copied; in place, the tensor's content is undefined until `wait` has returned.
  Handle all_reduce_async(const torch::Tensor& tensor, const ReduceOptions& options = {});
  Handle all_reduce_async_(torch::Tensor tensor, const ReduceOptions& options = {});
  Handle all_reduce_async(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});
  Handle all_reduce_async_(const std::vector<torch::Tensor>& tensors, const ReduceOptions& options = {});

  /// Returns the ranks' tensors concatenated along the first dimension, in which they may differ. Any type.
  torch::Tensor all_gather(const torch::Tensor& tensor, const std::string& name = {});

  /// Returns the root's tensor. All ranks pass one of the same shape and type. Any type.
  torch::Tensor broadcast(const torch::Tensor& tensor, Rank root = 0, const std::string& name = {});
  void broadcast_(torch::Tensor tensor, Rank root = 0, const std::string& name = {});  ///< in place

  struct Received {
    torch::Tensor tensor;            ///< what all ranks sent to this one, in the order of ranks
    std::vector<std::int64_t> rows;  ///< how much of it is from each rank
  };
  /// Sends `rows[i]` rows of `tensor` (its first dimension) to rank i, or equally many to each. Any type.
  Received all_to_all(const torch::Tensor& tensor, std::vector<std::int64_t> rows = {}, const std::string& name = {});

  /// Returns when all ranks have called it or joined.
  void barrier();

  /// Returns means over all ranks, each weighted by its `weight` (such as its samples). All ranks pass the same keys.
  std::map<std::string, double> average(const std::map<std::string, double>& metrics, double weight = 1);
  double average(double value, double weight = 1, const std::string& name = {});

  /// Returns whether the job was asked to end (Ctrl-C, `trireme stop`): the same on all ranks, so that all leave their
  /// loops after the same step. A collective call. In a loop that `dist::elastic` runs, `state.lanes()` does it.
  bool should_stop();

  /// Shows how training goes: in the progress line, in `trireme status`, as a row of metrics.jsonl and in TensorBoard's
  /// files; the last values are part of the job's result. The chief's values count, each once per step, in ascending
  /// order; see `average` for means over all ranks. Not a collective call: others may leave it out. Does nothing if the
  /// world was made from a communicator. Throws InvalidArgument for a name that is empty or has a meaning of its own
  /// (kind, step, strategy, time).
  void report(const std::map<std::string, double>& values, Step step);

  /// This rank has no more work: it takes part in what the others do without contributing, until all have joined.
  /// Returns the rank that joined last: its parameters saw every step, so broadcast_parameters from it before
  /// continuing.
  Rank join();

  /// Ends successfully: waits for the others, and tells the master that this worker is done, and the chief also the
  /// result. Must be the last call.
  void finish();

  /// The name of this machine.
  static std::string this_host();

 private:
  friend class Channel;
  friend class DistributedOptimizer;
  friend class State;
  friend class ElasticLoop;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Joins the job that this process was started for (see Job::join), or runs alone. Blocks until all workers are
/// connected. Throws as Job::join and Job::ranks do.
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
///   loss.backward();            // gradients leave while it runs
///   optimizer.clip_norm(1.0);   // if you like
///   optimizer.step();
///
/// From backward to `synchronize`, `clip_norm` or `step` the gradients are on their way: whoever touches one then, such
/// as torch's clip_grad_norm_, gets an InvalidArgument.
///
/// Ranks do not have to use the same parameters in a step: a parameter that a rank did not use counts as a gradient of
/// zero, and after `step` every parameter has a gradient. Sparse gradients are made dense. On the CPU, gradients lie in
/// memory that the ranks of a machine share from the first step on, and are summed there.
///
/// Construct it on all ranks in the same order. The constructor does not change parameters: see broadcast_parameters.
/// Use it on the thread that uses `world`; `world` and `optimizer` must outlive it.
class DistributedOptimizer {
 public:
  /// Throws InvalidArgument if `optimizer` trains something that is not among `parameters` (ranks would drift apart),
  /// or the ranks' parameters differ. Parameters that require no gradient are left out.
  DistributedOptimizer(World& world, torch::optim::Optimizer& optimizer, const NamedParameters& parameters,
                       DistributedOptimizerOptions options = {});
  ~DistributedOptimizer();

  /// Replaces each gradient by the mean over the ranks that have not joined. Call it between backward and `step` to
  /// read or change gradients; otherwise `step` does it. Throws as World::all_reduce does, and InvalidArgument if a
  /// gradient was replaced since backward.
  void synchronize();

  /// Scales the gradients down to this norm (of all of them together) if theirs is larger; returns what it was. Call it
  /// between backward and `step`: it synchronizes first. The norm is that of the mean gradient, so all ranks scale by
  /// the same factor, bit for bit, and the result does not depend on how many they are. Throws as `synchronize`, and
  /// InvalidArgument if `largest` is not above 0 or the norm is not finite.
  double clip_norm(double largest);

  /// One update of the parameters.
  void step();

  /// Throws InvalidArgument between backward and `step`: gradients are on their way.
  void zero_grad();

  torch::optim::Optimizer& inner();

  /// Returns how much data the gradients have moved so far.
  Traffic traffic() const;

 private:
  friend class State;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Gives every rank the root's values of all tensors. All ranks pass the same names, shapes and types. A collective
/// call; throws as World::broadcast_ does, naming the tensor.
void broadcast_parameters(World& world, const torch::OrderedDict<std::string, torch::Tensor>& named, Rank root = 0);

/// The same for all parameters, frozen ones too, and buffers of a module.
void broadcast_parameters(World& world, const torch::nn::Module& module, Rank root = 0);

/// Gives every rank the root's optimizer state (momentum, step counts, …) and settings (learning rates, …), whether it
/// has state of its own already or has never made a step. The ranks' optimizers are of one class and were made for
/// the same parameters in the same order. Any optimizer that torch can save. A collective call.
void broadcast_optimizer_state(World& world, torch::optim::Optimizer& optimizer, Rank root = 0);

struct LargeBatchOptions {
  std::uint32_t size = 1;    ///< the batch relative to the one the rate was tuned for: the number of workers
  double warmup_epochs = 5;  ///< over which the factor rises from 1 to `size`
  Step steps_per_epoch = 1;
};

/// The learning rate for a batch that grew with the number of workers (Goyal et al. 2017, "Accurate, Large Minibatch
/// SGD"): `size` times as high, reached gradually, since the first steps would diverge otherwise; multiplied by `then`,
/// a schedule of its own. Throws InvalidArgument.
optim::Schedule scale_by_size(const LargeBatchOptions& options, optim::Schedule then = optim::make_schedule({}));

/// Sets the learning rate of all parameter groups. Call it before each step, with an optim::Schedule:
/// `set_learning_rate(sgd, 0.1 * schedule(step))`.
void set_learning_rate(torch::optim::Optimizer& optimizer, double lr);

}  // namespace trireme::dist
