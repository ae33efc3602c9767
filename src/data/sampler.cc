#include "trireme/sampler.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/lanes.h"
#include "base/mutex.h"
#include "base/random.h"

namespace trireme::data {
namespace {

/// The order of an epoch is kept in memory; more samples than this are a mistake (32 GiB of indices).
constexpr std::uint64_t kMostShuffled = std::uint64_t{1} << 32;

void check(const SamplerConfig& config) {
  const auto& [samples, batch, lanes, seed, shuffle] = config;
  if (samples == 0) fail<InvalidArgument>("there are no samples to train on");
  if (batch == 0) fail<InvalidArgument>("a batch of 0 samples trains nothing: set --batch to 1 or more");
  if (lanes == 0) fail<InvalidArgument>("0 lanes hold no samples: set --lanes to 1 or more");
  if (lanes > samples) {
    fail<InvalidArgument>("more lanes than samples: {} lanes, {} samples; set --lanes to at most {}", lanes, samples,
                          samples);
  }
  if (batch > samples) {
    fail<InvalidArgument>("a batch of {} is larger than the data ({} samples); set --batch to at most {}", batch,
                          samples, samples);
  }
  if (lanes > batch) {
    fail<InvalidArgument>(
        "more lanes than samples in a batch: {} lanes, batch {}; set --lanes to at most {} or raise --batch", lanes,
        batch, batch);
  }
  if (shuffle && samples > kMostShuffled) {
    fail<InvalidArgument>("{} samples are too many to shuffle in memory (at most {}): read them in order", samples,
                          kMostShuffled);
  }
}

}  // namespace

/// The order of one epoch at a time. Thread-safe.
class Sampler::Orders {
 public:
  using Order = std::shared_ptr<const std::vector<std::uint64_t>>;

  Order of(const SamplerConfig& config, std::uint64_t epoch) {
    // Shuffles under the lock: another caller would otherwise do the same work meanwhile.
    const MutexLock lock(mutex_);
    if (order_ == nullptr || epoch_ != epoch) {
      order_ = nullptr;  // frees the old one before the new one is made
      order_ = std::make_shared<const std::vector<std::uint64_t>>(shuffled(config.samples, config.seed, epoch));
      epoch_ = epoch;
    }
    return order_;
  }

 private:
  Mutex mutex_;
  std::uint64_t epoch_ TRIREME_GUARDED_BY(mutex_) = 0;
  Order order_ TRIREME_GUARDED_BY(mutex_);  // null until the first call
};

Sampler::Sampler(const SamplerConfig& config) : config_(config), orders_(std::make_shared<Orders>()) { check(config); }

std::uint64_t Sampler::steps_per_epoch() const {
  return config_.samples / config_.batch + (config_.samples % config_.batch != 0);
}

std::uint64_t Sampler::epoch_of(Step step) const { return step / steps_per_epoch(); }

/// Returns the position in its epoch's order at which `step` begins. Cannot overflow: it is below config_.samples.
std::uint64_t Sampler::first_of(Step step) const { return step % steps_per_epoch() * config_.batch; }

std::uint64_t Sampler::batch_size(Step step) const { return std::min(config_.batch, config_.samples - first_of(step)); }

std::vector<std::uint64_t> Sampler::indices(Step step, Lane lane) const {
  if (lane >= config_.lanes) {
    fail<InvalidArgument>("there is no lane {} in step {}: lanes are below {}", lane, step, config_.lanes);
  }
  const SampleRange range = lane_samples(batch_size(step), config_.lanes, lane);
  const std::uint64_t first = first_of(step) + range.first;
  std::vector<std::uint64_t> result(range.count);
  if (config_.shuffle) {
    const Orders::Order order = orders_->of(config_, epoch_of(step));
    std::copy_n(order->data() + first, range.count, result.begin());
  } else {
    std::iota(result.begin(), result.end(), first);
  }
  return result;
}

}  // namespace trireme::data
