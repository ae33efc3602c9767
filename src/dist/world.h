#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "base/mutex.h"
#include "codec/spec.h"
#include "dist/negotiation.h"
#include "job/job.h"

namespace trireme::dist {

using collective::ReduceOp;

struct ReduceOptions {
  ReduceOp op = ReduceOp::kAverage;
  /// How float32 values travel, for sums and averages. Without error feedback, which a single call has no memory for:
  /// see DistributedOptimizer.
  codec::Spec compression;
  std::string name;  ///< for messages; if ranks give different names, they mean different things, and are told so
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
  class FusedReduce;
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

  Rank rank() const { return ranks_.rank(); }
  std::uint32_t size() const { return ranks_.size(); }
  Rank local_rank() const { return local_rank_; }              ///< among the ranks of this machine: which GPU to take
  std::uint32_t local_size() const { return local_size_; }     ///< ranks of this machine
  bool chief() const { return rank() == 0; }                   ///< who prints and saves
  Job* job() { return job_.get(); }                            ///< null if made from a communicator
  collective::Communicator& communicator() { return ranks_; }  ///< what lies below; not while some have joined

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

  /// A line of its own to all ranks, for whatever sends when it wants to: what goes over it is ordered by itself.
  /// `join` serves it as well. A collective call.
  class Channel {
   public:
    explicit Channel(World& world, const std::string& name);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    collective::Communicator& ranks() { return *ranks_; }
    Negotiation& negotiation() { return negotiation_; }

   private:
    World& world_;
    std::unique_ptr<collective::Communicator> ranks_;
    Negotiation negotiation_;
  };

  /// The name of this machine.
  static std::string this_host();

 private:
  void find_neighbours(const std::string& host);
  std::unique_ptr<collective::Communicator> open(const std::string& channel);
  Handle reduce(const std::vector<torch::Tensor>& in, const std::vector<torch::Tensor>& out,
                const ReduceOptions& options, bool in_background);

  std::unique_ptr<Job> job_;
  collective::Communicator& ranks_;
  Negotiation negotiation_{ranks_};
  Rank local_rank_ = 0;
  std::uint32_t local_size_ = 1;
  std::uint32_t channels_opened_ = 0;
  Mutex mutex_;
  std::vector<Channel*> channels_ TRIREME_GUARDED_BY(mutex_);  // the job's failure comes from its thread
  std::vector<std::shared_ptr<Handle::FusedReduce>> reduces_;  // perhaps with nobody who waits for them
};

/// Joins the job that this process was started for (see Job::join), or is alone. Blocks until all workers are here.
/// Throws as Job::join and Job::ranks do.
std::unique_ptr<World> init();

}  // namespace trireme::dist
