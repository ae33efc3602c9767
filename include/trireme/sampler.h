#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "trireme/types.h"

namespace trireme::data {

struct ShardPlan;

/// Which lane reads which samples.
struct Sharding {
  enum class Kind {
    kShuffled,      ///< any sample may come to any lane
    kBlocks,        ///< each lane has a block of neighbouring samples, all of about the same size
    kRoundRobin,    ///< lane l of n has the samples l, l + n, l + 2n, ...
    kProportional,  ///< blocks in proportion to `weights`, one for each lane
  };

  Kind kind = Kind::kShuffled;
  std::vector<double> weights = {};  ///< of kProportional

  bool operator==(const Sharding&) const = default;

  /// Parses `shuffled`, `blocks`, `round-robin` or `proportional:3,2,1`. Throws InvalidArgument with what there is.
  static Sharding parse(std::string_view text);
};

struct SamplerConfig {
  std::uint64_t samples = 0;  ///< in the dataset
  std::uint64_t batch = 0;    ///< samples per step, over all lanes
  Lane lanes = 1;             ///< slices of the batch
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< a new order each epoch, from (seed, epoch); else 0, 1, 2, ...
  /// Unless it is kShuffled, each lane sees only samples of its own part of the data, as where data cannot leave the
  /// place it is at; `shuffle` then orders each part by itself.
  Sharding sharding = {};
};

/// Which samples each lane of each step sees.
///
/// Depends on the config only, neither on the number of workers nor on earlier calls. So any worker can take over any
/// lane, and the step number alone is the position in the data. Each epoch visits each sample exactly once. Where lanes
/// have parts of their own, each lane spreads its part evenly over the steps of an epoch, so a step may have a few
/// samples more or less than a batch.
/// Thread-safe. Keeps the order of one epoch (8 bytes per sample) if it shuffles; threads that work in different
/// epochs at the same time make it shuffle over and over.
class Sampler {
 public:
  /// Throws InvalidArgument unless 1 <= lanes <= batch <= samples, or if weights are not one positive number per lane.
  explicit Sampler(const SamplerConfig& config);

  const SamplerConfig& config() const { return config_; }

  /// The last step of an epoch takes the samples that are left: it may be smaller, it is never dropped. With parts of
  /// their own, lanes divide them by as many steps.
  std::uint64_t steps_per_epoch() const;

  /// Steps count across epochs, from 0.
  std::uint64_t epoch_of(Step step) const;

  /// Samples in all lanes of `step` together: the weight of its gradient.
  std::uint64_t batch_size(Step step) const;

  /// The samples of one lane of one step, in the order in which they are read. Empty where the last batch of an epoch
  /// has fewer samples than lanes. Throws InvalidArgument if there is no such lane.
  std::vector<std::uint64_t> indices(Step step, Lane lane) const;

 private:
  class Orders;  // of epochs

  std::uint64_t first_of(Step step) const;
  bool sharded() const { return config_.sharding.kind != Sharding::Kind::kShuffled; }
  std::vector<std::uint64_t> shard_indices(Step step, Lane lane) const;

  SamplerConfig config_;
  std::shared_ptr<const ShardPlan> plan_;  // null unless it is sharded
  std::shared_ptr<Orders> orders_;
};

}  // namespace trireme::data
