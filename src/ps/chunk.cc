#include "ps/chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "ps/replica_link.h"
#include "ps/write_scope.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: the sum of a block stays in the first-level cache until it is applied

/// What a gradient adds to the history of a chunk. In one view nobody but one primary makes updates, and each unit or
/// step once: no two different gradients add the same.
std::uint64_t digest(std::uint64_t history, const Contribution& contribution) {
  const std::uint64_t lanes = (std::uint64_t{contribution.lanes.first} << 32) | contribution.lanes.count;
  const std::uint64_t what = mix_seed(contribution.step, contribution.unit, mix_seed(lanes, contribution.view));
  return mix_seed(
      history, what,
      mix_seed(std::bit_cast<std::uint64_t>(contribution.samples), std::bit_cast<std::uint64_t>(contribution.lr)));
}

}  // namespace

Chunk::Chunk(const ChunkPolicy& policy, ChunkId id, std::span<float> parameters,
             std::atomic<std::uint64_t>* version_word)
    : policy_(policy), id_(id), parameters_(parameters), version_word_(version_word), state_(state_floats()) {}

// ---- Gradients.

void Chunk::push(Contribution contribution) {
  const MutexLock lock(mutex_);
  check_view(contribution.view);
  check(contribution);
  if (policy_.consistency.synchronous()) {
    push_synchronous(std::move(contribution));
  } else {
    push_at_once(std::move(contribution));
  }
  measure_spread();
}

void Chunk::check(const Contribution& contribution) const {
  if (contribution.worker >= workers_.size()) {
    fail<InvalidArgument>("worker {} pushes, but the job has {} workers", contribution.worker, workers_.size());
  }
  if (!is_subtree(policy_.lanes, contribution.lanes)) {
    fail<InvalidArgument>("worker {} pushes lanes {}..{} of {}, which is no subtree of the order of summation",
                          contribution.worker, contribution.lanes.first, contribution.lanes.end(), policy_.lanes);
  }
  optim::validate(optim::UpdateInput{.step = 1, .lr = contribution.lr, .gradient_scale = 1});
  if (!(contribution.samples >= 0)) {
    fail<InvalidArgument>("worker {} pushes a gradient of {} samples", contribution.worker, contribution.samples);
  }
  if (contribution.unit == ~std::uint64_t{0}) fail<InvalidArgument>("unit {} cannot be", contribution.unit);
}

void Chunk::push_synchronous(Contribution contribution) {
  if (contribution.step < version_) {  // late, or sent again
    std::vector<DeferredReply> reply{answer(contribution, /*counted=*/false)};
    return dispatch({}, std::move(reply));
  }
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

/// All lanes are there; or only those of backup workers and of workers that have left are missing.
bool Chunk::round_ready(std::span<const Contribution* const> round) const {
  Lane covered = 0;
  for (const Contribution* contribution : round) covered += contribution->lanes.count;  // they do not overlap
  if (covered == policy_.lanes) return true;
  std::uint32_t missing = 0;
  bool all_stay = true;
  for (Rank rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].left) {
      all_stay = false;
      continue;
    }
    const bool here = std::ranges::any_of(round, [&](const Contribution* c) { return c->worker == rank; });
    missing += here ? 0 : 1;
  }
  const bool may_miss = policy_.consistency.backup_workers > 0 || !all_stay;
  return may_miss && missing <= policy_.consistency.backup_workers;
}

void Chunk::finish_rounds() {
  for (;;) {
    std::vector<const Contribution*> round;
    for (const Contribution& contribution : waiting_) {
      if (contribution.step == version_) round.push_back(&contribution);
    }
    if (round.empty() || !round_ready(round)) return;
    std::ranges::sort(round, {}, [](const Contribution* contribution) { return contribution->lanes.first; });
    auto forward = apply(round, 1.0);
    const bool due = policy_.snapshot_every > 0 && version_ % policy_.snapshot_every == 0;
    if (due || version_ == snapshot_wanted_) give_snapshot();  // before the next update can be made
    std::vector<DeferredReply> reply;
    const bool regroup = std::ranges::any_of(round, &Contribution::regroup);
    for (const Contribution* contribution : round) {
      reply.push_back(answer(*contribution, /*counted=*/true));
      reply.back().reply.regroup = regroup;
    }
    std::erase_if(waiting_, [&](const Contribution& contribution)
                                TRIREME_REQUIRES(mutex_) { return contribution.step < version_; });
    dispatch(std::move(forward), std::move(reply));
  }
}

void Chunk::push_at_once(Contribution contribution) {
  Worker& worker = workers_[contribution.worker];
  const Step clock = advance(worker.clock, contribution.step);
  const bool fresh = units_.insert(contribution.unit);
  std::optional<Forward> forward;
  if (fresh) {
    const double factor = staleness_factor(policy_.consistency, version_ - worker.seen);
    const Contribution* one = &contribution;
    forward = apply({&one, 1}, factor);
  }
  const auto same_worker = [&](const Contribution& held) { return held.worker == contribution.worker; };
  std::erase_if(waiting_, same_worker);  // sent again over a new connection
  std::vector<DeferredReply> reply;
  if (may_go_on(policy_.consistency, clock, slowest_clock())) {
    reply.push_back(answer(contribution, fresh));
  } else {
    contribution.counts = fresh;
    waiting_.push_back(std::move(contribution));
  }
  dispatch(std::move(forward), std::move(reply));
  release_held();
}

void Chunk::release_held() {
  const Step slowest = slowest_clock();
  std::vector<DeferredReply> reply;
  std::erase_if(waiting_, [&](const Contribution& held) TRIREME_REQUIRES(mutex_) {
    if (!may_go_on(policy_.consistency, workers_[held.worker].clock.clock, slowest)) return false;
    reply.push_back(answer(held, held.counts));
    return true;
  });
  dispatch({}, std::move(reply));
}

/// Makes one update; if there is a linked replica, returns what it needs to make the same.
std::optional<Chunk::Forward> Chunk::apply(std::span<const Contribution* const> contributions, double factor) {
  double samples = 0;
  std::vector<Partial> partials;
  for (const Contribution* contribution : contributions) {
    samples += contribution->samples;
    stop_ = stop_ || contribution->stop;
    history_ = digest(history_, *contribution);
    partials.push_back({contribution->lanes, contribution->gradient});
  }
  ++version_;
  const Contribution& first = *contributions.front();
  const bool empty = samples <= 0;  // an empty last batch: a step, but nothing to learn from it
  if (!empty) ++updates_;
  const double scale = empty ? 1 : factor / samples;

  std::optional<Forward> forward;
  if (link_ && linked_) {
    forward = Forward{.update = {.chunk = id_.index,
                                 .version = version_,
                                 .empty = empty,
                                 .updates = updates_,
                                 .lr = first.lr,
                                 .scale = scale,
                                 .stop = stop_,
                                 .history = history_},
                      .gradient = nullptr};
    if (!policy_.consistency.synchronous()) {
      forward->update.worker = workers_[first.worker].clock.member;
      forward->update.step = first.step;
      forward->update.unit = first.unit;
    }
    if (!empty) forward->gradient = policy_.pool->take(parameters_.size_bytes());
  }
  if (!empty) {
    update_parameters({.step = updates_, .lr = first.lr, .gradient_scale = scale}, partials,
                      forward ? reinterpret_cast<float*>(forward->gradient.get()) : nullptr);
  }
  return forward;
}

/// Sums and applies block by block; the sum is left in `keep_sum`, if given.
void Chunk::update_parameters(const optim::UpdateInput& input, std::span<const Partial> partials, float* keep_sum) {
  const WriteScope writing(*version_word_);
  std::array<float, kBlock> scratch;
  for (std::size_t begin = 0; begin < parameters_.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, parameters_.size() - begin);
    std::span<const float> gradient(partials.front().values + begin, count);
    const std::span<float> sum(keep_sum != nullptr ? keep_sum + begin : scratch.data(), count);
    if (partials.size() > 1) {
      tree_sum(policy_.lanes, partials, begin, sum);
      gradient = sum;
    } else if (keep_sum != nullptr) {
      std::memcpy(sum.data(), gradient.data(), gradient.size_bytes());
    }
    optim::apply_update(policy_.update, input, parameters_.subspan(begin, count),
                        optim::state_at(policy_.update.rule, state_, parameters_.size(), begin), gradient);
  }
}

// ---- Answers.

/// What the worker is told, now or when the replica has it; its copy is made now.
DeferredReply Chunk::answer(const Contribution& contribution, bool counted) {
  if (contribution.copy_to != nullptr) {
    std::memcpy(contribution.copy_to, parameters_.data(), parameters_.size_bytes());
  }
  Worker& worker = workers_[contribution.worker];
  worker.seen = version_;
  if (contribution.gradient != nullptr) {  // a push that was sent again may be an old one
    const Step finished = policy_.consistency.synchronous() ? contribution.step + 1 : worker.clock.clock;
    worker.known_finished = std::max(worker.known_finished, finished);
  }
  return {contribution.waiter, {.version = version_, .counted = counted, .stop = stop_}};
}

void Chunk::dispatch(std::optional<Forward> forward, std::vector<DeferredReply> reply) {
  if (forward) {
    const std::size_t bytes = forward->gradient ? parameters_.size_bytes() : 0;
    return link_->forward(id_.shard, std::move(forward->update), {std::move(forward->gradient), bytes},
                          std::move(reply));
  }
  for (DeferredReply& each : reply) {
    if (link_) {
      link_->defer_reply(id_.shard, linked_, std::move(each));
    } else {
      each.waiter->chunk_done(each.reply);
    }
  }
}

void Chunk::pull(Contribution request) {
  const MutexLock lock(mutex_);
  check_view(request.view);
  if (request.worker >= workers_.size()) {
    fail<InvalidArgument>("worker {} pulls, but the job has {} workers", request.worker, workers_.size());
  }
  if (!assigned_) return early_.push_back(std::move(request));
  std::vector<DeferredReply> reply{answer(request, /*counted=*/true)};
  dispatch({}, std::move(reply));
}

void Chunk::leave(Rank worker) {
  const MutexLock lock(mutex_);
  if (worker >= workers_.size() || workers_[worker].left) return;
  workers_[worker].left = true;
  if (policy_.consistency.synchronous()) {
    finish_rounds();
  } else {
    release_held();
  }
}

// ---- Clocks.

/// The worker's clock after its push of `step`. Steps are counted from its first one: a worker that came later may
/// count as it likes.
Step Chunk::advance(WorkerClock& clock, Step step) {
  if (!clock.started) {
    clock.started = true;
    clock.first = step;
  }
  const Step now = clock.offset + (step >= clock.first ? step - clock.first + 1 : 0);
  clock.clock = std::max(clock.clock, now);
  return now;
}

void Chunk::measure_spread() {
  Step slowest = ~Step{0};
  Step fastest = 0;
  for (const Worker& worker : workers_) {
    if (worker.left) continue;
    slowest = std::min(slowest, worker.known_finished);
    fastest = std::max(fastest, worker.known_finished);
  }
  if (slowest < fastest) spread_max_ = std::max(spread_max_, fastest - slowest);
}

Chunk::Clocks Chunk::clocks() {
  const MutexLock lock(mutex_);
  Clocks clocks{.finished = {}, .spread_max = spread_max_};
  for (const Worker& worker : workers_) clocks.finished.push_back(worker.known_finished);
  return clocks;
}

Step Chunk::slowest_clock() const {
  Step slowest = ~Step{0};
  for (const Worker& worker : workers_) {
    if (!worker.left) slowest = std::min(slowest, worker.clock.clock);
  }
  return slowest;  // if all have left, nobody is waited for
}

}  // namespace trireme::ps
