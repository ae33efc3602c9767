#include "trireme/ps/chunk.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: the sum of a block stays in the first-level cache until it is applied

/// The parameters change inside its scope; readers in other processes see that.
class WriteScope {
 public:
  explicit WriteScope(std::atomic<std::uint64_t>& word) : word_(word) {
    word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~WriteScope() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  WriteScope(const WriteScope&) = delete;
  WriteScope& operator=(const WriteScope&) = delete;

 private:
  std::atomic<std::uint64_t>& word_;
};

}  // namespace

Chunk::Chunk(const ChunkPolicy& policy, std::span<float> parameters, std::atomic<std::uint64_t>* version_word)
    : policy_(policy),
      parameters_(parameters),
      version_word_(version_word),
      state_(state_floats(policy.update.rule) * parameters.size()),
      left_(policy.workers, false),
      told_{.finished = std::vector<Step>(policy.workers, 0)},
      clock_(policy.workers, 0),
      seen_version_(policy.workers, 0) {}

void Chunk::assign(std::span<const float> values) {
  const std::lock_guard lock(mutex_);
  TRIREME_CHECK(values.size() == parameters_.size());
  if (version_ == 0) {
    const WriteScope writing(*version_word_);
    std::memcpy(parameters_.data(), values.data(), values.size_bytes());
  }
  assigned_ = true;
  for (const Contribution& request : early_) answer(request, /*counted=*/true);
  early_.clear();
}

void Chunk::push(Contribution contribution) {
  const std::lock_guard lock(mutex_);
  if (contribution.worker >= policy_.workers) {
    fail<InvalidArgument>("worker {} pushes, but the job has {} workers", contribution.worker, policy_.workers);
  }
  if (!is_subtree(policy_.lanes, contribution.lanes)) {
    fail<InvalidArgument>("worker {} pushes lanes {}..{} of {}, which is no subtree of the order of summation",
                          contribution.worker, contribution.lanes.first, contribution.lanes.end(), policy_.lanes);
  }
  validate(UpdateInput{.step = 1, .lr = contribution.lr, .gradient_scale = 1});
  if (!(contribution.samples >= 0)) {
    fail<InvalidArgument>("worker {} pushes a gradient of {} samples", contribution.worker, contribution.samples);
  }
  if (policy_.consistency.synchronous()) {
    push_synchronous(std::move(contribution));
  } else {
    push_at_once(std::move(contribution));
  }
  measure_spread();
}

void Chunk::push_synchronous(Contribution contribution) {
  if (contribution.step < version_) return answer(contribution, /*counted=*/false);  // late, or sent again
  for (Contribution& other : waiting_) {
    if (other.step != contribution.step) continue;
    if (other.worker == contribution.worker) {  // sent again over a new connection: the old one's answer has no reader
      other = std::move(contribution);
      return;
    }
    const bool overlap = other.lanes.first < contribution.lanes.end() && contribution.lanes.first < other.lanes.end();
    if (overlap) {
      fail<InvalidArgument>("workers {} and {} both push lane {} of step {}", other.worker, contribution.worker,
                            std::max(other.lanes.first, contribution.lanes.first), contribution.step);
    }
  }
  waiting_.push_back(std::move(contribution));
  finish_rounds();
}

void Chunk::finish_rounds() {
  for (;;) {
    std::vector<const Contribution*> round;
    for (const Contribution& contribution : waiting_) {
      if (contribution.step == version_) round.push_back(&contribution);
    }
    if (round.empty() ||
        !round_complete(policy_.consistency, static_cast<std::uint32_t>(round.size()), active_workers())) {
      return;
    }
    std::sort(round.begin(), round.end(),
              [](const Contribution* a, const Contribution* b) { return a->lanes.first < b->lanes.first; });
    apply(round, 1.0);
    for (const Contribution* contribution : round) answer(*contribution, /*counted=*/true);
    std::erase_if(waiting_, [&](const Contribution& contribution) { return contribution.step < version_; });
  }
}

void Chunk::push_at_once(Contribution contribution) {
  const Rank worker = contribution.worker;
  const bool fresh = contribution.step >= clock_[worker];
  if (fresh) {
    const double factor = staleness_factor(policy_.consistency, version_ - seen_version_[worker]);
    const Contribution* one = &contribution;
    apply({&one, 1}, factor);
    clock_[worker] = contribution.step + 1;
  }
  std::erase_if(waiting_, [&](const Contribution& held) { return held.worker == worker; });
  if (may_go_on(policy_.consistency, contribution.step + 1, slowest_clock())) {
    answer(contribution, fresh);
  } else {
    waiting_.push_back(std::move(contribution));
  }
  if (fresh) release_held();
}

void Chunk::release_held() {
  const Step slowest = slowest_clock();
  std::erase_if(waiting_, [&](const Contribution& held) {
    if (!may_go_on(policy_.consistency, held.step + 1, slowest)) return false;
    answer(held, /*counted=*/true);
    return true;
  });
}

void Chunk::apply(std::span<const Contribution* const> contributions, double factor) {
  double samples = 0;
  std::vector<Partial> partials;
  for (const Contribution* contribution : contributions) {
    samples += contribution->samples;
    stop_ = stop_ || contribution->stop;
    partials.push_back({contribution->lanes, contribution->gradient});
  }
  ++version_;
  if (samples <= 0) return;  // an empty last batch: a step, but nothing to learn from it
  const UpdateInput input{.step = ++updates_, .lr = contributions.front()->lr, .gradient_scale = factor / samples};
  const WriteScope writing(*version_word_);
  std::array<float, kBlock> sum;
  for (std::size_t begin = 0; begin < parameters_.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, parameters_.size() - begin);
    std::span<const float> gradient(partials.front().values + begin, count);
    if (partials.size() > 1) {
      tree_sum(policy_.lanes, partials, begin, std::span(sum).first(count));
      gradient = std::span(sum).first(count);
    }
    apply_update(policy_.update, input, parameters_.subspan(begin, count),
                 state_at(policy_.update.rule, state_, parameters_.size(), begin), gradient);
  }
}

void Chunk::answer(const Contribution& contribution, bool counted) {
  if (contribution.copy_to != nullptr) {
    std::memcpy(contribution.copy_to, parameters_.data(), parameters_.size_bytes());
  }
  seen_version_[contribution.worker] = version_;
  if (contribution.gradient != nullptr) {
    Step& finished = told_.finished[contribution.worker];
    finished = std::max(finished, contribution.step + 1);  // a push that was sent again may be an old one
  }
  contribution.waiter->chunk_done({.version = version_, .counted = counted, .stop = stop_});
}

void Chunk::pull(Contribution request) {
  const std::lock_guard lock(mutex_);
  if (request.worker >= policy_.workers) {
    fail<InvalidArgument>("worker {} pulls, but the job has {} workers", request.worker, policy_.workers);
  }
  if (assigned_) {
    answer(request, /*counted=*/true);
  } else {
    early_.push_back(std::move(request));
  }
}

void Chunk::leave(Rank worker) {
  const std::lock_guard lock(mutex_);
  if (worker >= policy_.workers || left_[worker]) return;
  left_[worker] = true;
  if (policy_.consistency.synchronous()) {
    finish_rounds();
  } else {
    release_held();
  }
}

void Chunk::measure_spread() {
  Step slowest = ~Step{0};
  Step fastest = 0;
  for (std::uint32_t worker = 0; worker < policy_.workers; ++worker) {
    if (left_[worker]) continue;
    slowest = std::min(slowest, told_.finished[worker]);
    fastest = std::max(fastest, told_.finished[worker]);
  }
  if (slowest < fastest) told_.spread_max = std::max(told_.spread_max, fastest - slowest);
}

Chunk::Clocks Chunk::clocks() {
  const std::lock_guard lock(mutex_);
  return told_;
}

Step Chunk::slowest_clock() const {
  Step slowest = ~Step{0};
  for (std::uint32_t worker = 0; worker < policy_.workers; ++worker) {
    if (!left_[worker]) slowest = std::min(slowest, clock_[worker]);
  }
  return slowest;  // if all have left, nobody is waited for
}

std::uint32_t Chunk::active_workers() const {
  return static_cast<std::uint32_t>(std::count(left_.begin(), left_.end(), false));
}

}  // namespace trireme::ps
