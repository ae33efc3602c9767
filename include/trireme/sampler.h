#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/types.h"

namespace trireme::data {

struct SamplerConfig {
  std::uint64_t samples = 0;  ///< in the dataset
  std::uint64_t batch = 0;    ///< samples per step, over all lanes
  Lane lanes = 1;             ///< slices of the batch
  std::uint64_t seed = 0;
  bool shuffle = true;  ///< a new order each epoch, from (seed, epoch); else 0, 1, 2, ...
};

/// Which samples each lane of each step sees.
///
/// Depends on the config only, neither on the number of workers nor on earlier calls. So any worker can take over any
/// lane, and the step number alone is the position in the data. Each epoch visits each sample exactly once.
/// Thread-safe. Keeps the order of one epoch (8 bytes per sample) if it shuffles; threads that work in different
/// epochs at the same time make it shuffle over and over.
class Sampler {
 public:
  /// Throws InvalidArgument unless 1 <= lanes <= batch <= samples.
  explicit Sampler(const SamplerConfig& config);

  const SamplerConfig& config() const { return config_; }

  /// The last step of an epoch takes the samples that are left: it may be smaller, it is never dropped.
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

  SamplerConfig config_;
  std::shared_ptr<Orders> orders_;
};

}  // namespace trireme::data
