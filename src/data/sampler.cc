#include "trireme/sampler.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/mutex.h"
#include "base/numbers/lanes.h"
#include "base/random.h"
#include "base/suggest.h"
#include "data/sharding.h"

namespace trireme::data {
namespace {

/// The order of an epoch is kept in memory; more samples than this are a mistake (32 GiB of indices).
constexpr std::uint64_t kMostShuffled = std::uint64_t{1} << 32;

void check(const SamplerConfig& config) {
  const auto& [samples, batch, lanes, seed, shuffle, sharding] = config;
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

/// Returns the part of each lane; null if they have none.
std::shared_ptr<const ShardPlan> make_plan(const SamplerConfig& config) {
  const auto& [kind, weights] = config.sharding;
  switch (kind) {
    case Sharding::Kind::kShuffled:
      return nullptr;
    case Sharding::Kind::kBlocks:
      return std::make_shared<const ShardPlan>(row_blocks(config.samples, config.lanes));
    case Sharding::Kind::kRoundRobin:
      return std::make_shared<const ShardPlan>(round_robin(config.samples, config.lanes));
    case Sharding::Kind::kProportional:
      if (weights.size() != config.lanes) {
        fail<InvalidArgument>("{} weights for {} lanes: give one for each lane (--shard proportional:3,2,1 --lanes 3)",
                              weights.size(), config.lanes);
      }
      if (std::ranges::any_of(weights, [](double weight) { return !(weight > 0); })) {
        fail<InvalidArgument>("a lane whose weight is not above 0 would have no samples: give it a positive one");
      }
      return std::make_shared<const ShardPlan>(proportional(config.samples, weights));
  }
  return nullptr;
}

/// The order in which lanes read their parts, one part behind the other.
std::vector<std::uint64_t> shuffled_parts(const ShardPlan& plan, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint64_t> order;
  for (std::size_t lane = 0; lane < plan.shards.size(); ++lane) {
    const Shard& shard = plan.shards[lane];
    for (const std::uint64_t i : shuffled(shard.count, seed + lane, epoch)) order.push_back(shard[i]);
  }
  return order;
}

}  // namespace

Sharding Sharding::parse(std::string_view text) {
  if (text == "shuffled") return {};
  if (text == "blocks") return {.kind = Kind::kBlocks};
  if (text == "round-robin") return {.kind = Kind::kRoundRobin};
  constexpr std::string_view kProportionalTo = "proportional:";
  if (text.starts_with(kProportionalTo)) {
    Sharding sharding{.kind = Kind::kProportional};
    for (std::string_view left = text.substr(kProportionalTo.size()); true;) {
      const std::string_view word = left.substr(0, left.find(','));
      double weight = 0;
      const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), weight);
      if (problem != std::errc() || end != word.data() + word.size() || !(weight > 0) || !std::isfinite(weight)) {
        fail<InvalidArgument>("'{}' in '{}' is no positive weight: give one for each lane, such as proportional:3,2,1",
                              word, text);
      }
      sharding.weights.push_back(weight);
      if (word.size() == left.size()) return sharding;
      left.remove_prefix(word.size() + 1);
    }
  }
  const std::string_view name = text.substr(0, text.find(':'));
  fail<InvalidArgument>(
      "there is no way '{}' to divide samples{}: use shuffled, blocks, round-robin or proportional:3,2,1", text,
      did_you_mean(name, {"shuffled", "blocks", "round-robin", "proportional"}));
}

/// The order of one epoch at a time. Thread-safe.
class Sampler::Orders {
 public:
  using Order = std::shared_ptr<const std::vector<std::uint64_t>>;

  Order of(const SamplerConfig& config, const ShardPlan* plan, std::uint64_t epoch) {
    // Shuffles under the lock: another caller would otherwise do the same work meanwhile.
    const MutexLock lock(mutex_);
    if (order_ == nullptr || epoch_ != epoch) {
      order_ = nullptr;  // frees the old one before the new one is made
      order_ = std::make_shared<const std::vector<std::uint64_t>>(
          plan != nullptr ? shuffled_parts(*plan, config.seed, epoch) : shuffled(config.samples, config.seed, epoch));
      epoch_ = epoch;
    }
    return order_;
  }

 private:
  Mutex mutex_;
  std::uint64_t epoch_ TRIREME_GUARDED_BY(mutex_) = 0;
  Order order_ TRIREME_GUARDED_BY(mutex_);  // null until the first call
};

Sampler::Sampler(const SamplerConfig& config) : config_(config), orders_(std::make_shared<Orders>()) {
  check(config);
  plan_ = make_plan(config);
}

std::uint64_t Sampler::steps_per_epoch() const {
  return config_.samples / config_.batch + (config_.samples % config_.batch != 0);
}

std::uint64_t Sampler::epoch_of(Step step) const { return step / steps_per_epoch(); }

/// Returns the position in its epoch's order at which `step` begins. Cannot overflow: it is below config_.samples.
std::uint64_t Sampler::first_of(Step step) const { return step % steps_per_epoch() * config_.batch; }

namespace {

/// The part of a shard that a lane reads in step `number` of `steps`: equal parts, up to one.
SampleRange part_of_shard(const Shard& shard, std::uint64_t number, std::uint64_t steps) {
  __extension__ using Wide = unsigned __int128;
  const auto begin = static_cast<std::uint64_t>(Wide{shard.count} * number / steps);
  const auto end = static_cast<std::uint64_t>(Wide{shard.count} * (number + 1) / steps);
  return {.first = begin, .count = end - begin};
}

}  // namespace

std::uint64_t Sampler::batch_size(Step step) const {
  if (!sharded()) return std::min(config_.batch, config_.samples - first_of(step));
  std::uint64_t samples = 0;
  for (const Shard& shard : plan_->shards) {
    samples += part_of_shard(shard, step % steps_per_epoch(), steps_per_epoch()).count;
  }
  return samples;
}

std::vector<std::uint64_t> Sampler::shard_indices(Step step, Lane lane) const {
  const Shard& shard = plan_->shards[lane];
  const SampleRange range = part_of_shard(shard, step % steps_per_epoch(), steps_per_epoch());
  std::vector<std::uint64_t> result(range.count);
  if (!config_.shuffle) {
    for (std::uint64_t i = 0; i < range.count; ++i) result[i] = shard[range.first + i];
    return result;
  }
  std::uint64_t before = 0;  // samples of the lanes before it
  for (Lane other = 0; other < lane; ++other) before += plan_->shards[other].count;
  const Orders::Order order = orders_->of(config_, plan_.get(), epoch_of(step));
  std::copy_n(order->data() + before + range.first, range.count, result.begin());
  return result;
}

std::vector<std::uint64_t> Sampler::indices(Step step, Lane lane) const {
  if (lane >= config_.lanes) {
    fail<InvalidArgument>("there is no lane {} in step {}: lanes are below {}", lane, step, config_.lanes);
  }
  if (sharded()) return shard_indices(step, lane);
  const SampleRange range = lane_samples(batch_size(step), config_.lanes, lane);
  const std::uint64_t first = first_of(step) + range.first;
  std::vector<std::uint64_t> result(range.count);
  if (config_.shuffle) {
    const Orders::Order order = orders_->of(config_, nullptr, epoch_of(step));
    std::copy_n(order->data() + first, range.count, result.begin());
  } else {
    std::iota(result.begin(), result.end(), first);
  }
  return result;
}

}  // namespace trireme::data
