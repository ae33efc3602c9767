#include "ps/chunk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/numbers/exact_sum.h"
#include "ps/replica_link.h"
#include "ps/write_scope.h"

namespace trireme::ps {
namespace {

constexpr std::size_t kBlock = 4096;  // floats: the sum of a block stays in the first-level cache until it is applied

/// What a gradient adds to the history of a chunk. In one view nobody but one primary makes updates, and each unit or
/// step once: no two different gradients add the same.
std::uint64_t digest(std::uint64_t history, const ChunkRequest& request) {
  const std::uint64_t lanes = (std::uint64_t{request.info.lanes.first} << 32) | request.info.lanes.count;
  const std::uint64_t what = mix_seed(request.info.step, request.info.unit, mix_seed(lanes, request.view));
  return mix_seed(
      history, what,
      mix_seed(std::bit_cast<std::uint64_t>(request.info.samples), std::bit_cast<std::uint64_t>(request.info.lr)));
}

optim::UpdateConfig update_of(optim::UpdateConfig config, const Chunk::ChunkId& id) {
  config.l2 *= id.decay;
  return config;
}

}  // namespace

Chunk::Chunk(const ChunkPolicy& policy, ChunkId id, std::span<float> parameters,
             std::atomic<std::uint64_t>* version_word)
    : policy_(policy),
      id_(id),
      update_(update_of(policy.update, id)),
      parameters_(parameters),
      version_word_(version_word),
      state_(state_floats()) {}

// ---- Gradients.

void Chunk::push(ChunkRequest request) {
  const MutexLock lock(mutex_);
  check_view(request.view);
  check(request);
  if (policy_.consistency.synchronous()) {
    push_synchronous(std::move(request));
  } else {
    push_at_once(std::move(request));
  }
  measure_spread();
}

void Chunk::check(const ChunkRequest& request) const {
  if (request.worker >= workers_.size()) {
    fail<InvalidArgument>("worker {} pushes, but the job has {} workers", request.worker, workers_.size());
  }
  if (!is_subtree(policy_.lanes, request.info.lanes)) {
    fail<InvalidArgument>("worker {} pushes lanes {}..{} of {}, which is no subtree of the order of summation",
                          request.worker, request.info.lanes.first, request.info.lanes.end(), policy_.lanes);
  }
  optim::validate(optim::UpdateInput{.step = 1, .lr = request.info.lr, .gradient_scale = 1});
  if (!(request.info.samples >= 0)) {
    fail<InvalidArgument>("worker {} pushes a gradient of {} samples", request.worker, request.info.samples);
  }
  if (request.info.unit == ~std::uint64_t{0}) fail<InvalidArgument>("unit {} cannot be", request.info.unit);
}

void Chunk::push_synchronous(ChunkRequest request) {
  if (request.info.step < version_) {  // late, or sent again
    if (policy_.weighs) return request.waiter->chunk_weighed(last_weight_);
    std::vector<DeferredReply> reply{answer(request, /*counted=*/false)};
    return dispatch({}, std::move(reply));
  }
  for (ChunkRequest& other : waiting_) {
    if (other.info.step != request.info.step) continue;
    if (other.worker == request.worker) {  // sent again over a new connection: the old one's answer has no reader
      other = std::move(request);
      if (weighed_ && other.info.step == version_) other.waiter->chunk_weighed(*weighed_);
      return;
    }
    const bool overlap =
        other.info.lanes.first < request.info.lanes.end() && request.info.lanes.first < other.info.lanes.end();
    if (overlap) {
      fail<InvalidArgument>("workers {} and {} both push lane {} of step {}", other.worker, request.worker,
                            std::max(other.info.lanes.first, request.info.lanes.first), request.info.step);
    }
  }
  waiting_.push_back(std::move(request));
  finish_rounds();
}

/// All lanes are there; or only those of backup workers and of workers that have left are missing.
bool Chunk::round_ready(std::span<const ChunkRequest* const> round) const {
  Lane covered = 0;
  for (const ChunkRequest* request : round) covered += request->info.lanes.count;  // they do not overlap
  if (covered == policy_.lanes) return true;
  std::uint32_t missing = 0;
  bool all_stay = true;
  for (Rank rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank].left) {
      all_stay = false;
      continue;
    }
    const bool here = std::ranges::any_of(round, [&](const ChunkRequest* c) { return c->worker == rank; });
    missing += here ? 0 : 1;
  }
  const bool may_miss = policy_.consistency.backup_workers > 0 || !all_stay;
  return may_miss && missing <= policy_.consistency.backup_workers;
}

/// The gradients of the next step that are there, in lane order.
std::vector<const ChunkRequest*> Chunk::present_round() const {
  std::vector<const ChunkRequest*> round;
  for (const ChunkRequest& request : waiting_) {
    if (request.info.step == version_) round.push_back(&request);
  }
  std::ranges::sort(round, {}, [](const ChunkRequest* request) { return request->info.lanes.first; });
  return round;
}

void Chunk::finish_rounds() {
  if (policy_.weighs) return weigh_round();
  for (;;) {
    const std::vector<const ChunkRequest*> round = present_round();
    if (round.empty() || !round_ready(round)) return;
    const auto forward = apply_round(round, 1.0);
    std::vector<DeferredReply> reply;
    for (const ChunkRequest* request : round) {
      reply.push_back(answer(*request, /*counted=*/true));
      reply.back().outcome.regroup = last_regroup_;
    }
    forget_round();
    dispatch(forward, std::move(reply));
  }
}

std::optional<Chunk::Forward> Chunk::apply_round(std::span<const ChunkRequest* const> round, double factor) {
  last_regroup_ = std::ranges::any_of(round, [](const ChunkRequest* request) { return request->info.regroup; });
  auto forward = apply(round, factor);
  const bool due = policy_.snapshot_every > 0 && version_ % policy_.snapshot_every == 0;
  if (due || version_ == snapshot_wanted_) give_snapshot();  // before the next update can be made
  return forward;
}

void Chunk::forget_round() {
  std::erase_if(waiting_,
                [&](const ChunkRequest& request) TRIREME_REQUIRES(mutex_) { return request.info.step < version_; });
}

// ---- Clipping, leaving out: the update waits for the norm of the whole gradient, of which this chunk knows its part.

void Chunk::weigh_round() {
  if (weighed_) return;
  const std::vector<const ChunkRequest*> round = present_round();
  if (round.empty() || !round_ready(round)) return;
  weighed_ = weigh(round);
  for (const ChunkRequest* request : round) request->waiter->chunk_weighed(*weighed_);
}

RoundWeight Chunk::weigh(std::span<const ChunkRequest* const> round) const {
  RoundWeight weight;
  std::vector<Partial> partials;
  for (const ChunkRequest* request : round) {
    weight.samples += request->info.samples;
    partials.push_back({request->info.lanes, request->gradient});
  }
  ExactSum squares;
  std::array<float, kBlock> scratch;
  for (std::size_t begin = 0; begin < parameters_.size() && !id_.sums; begin += kBlock) {
    const std::span<float> sum(scratch.data(), std::min(kBlock, parameters_.size() - begin));
    tree_sum(policy_.lanes, partials, begin, sum);
    add_squares(sum, squares);
  }
  weight.squares = squares.words();
  return weight;
}

void Chunk::apply_weighed(ChunkRequest request, double factor) {
  const MutexLock lock(mutex_);
  check_view(request.view);
  if (request.worker >= workers_.size() || !policy_.weighs ||
      !((factor > 0 && factor <= 1) || (factor == kLeaveOut && policy_.skips))) {
    fail<InvalidArgument>("worker {} applies step {} times {}, which cannot be", request.worker, request.info.step,
                          factor);
  }
  std::optional<Forward> forward;
  if (request.info.step == version_) {
    if (!weighed_) fail<InvalidArgument>("step {} of chunk {} has not been weighed", version_, id_.index);
    last_weight_ = *std::exchange(weighed_, std::nullopt);
    forward = apply_round(present_round(), factor);
    forget_round();
  } else if (request.info.step > version_) {
    fail<InvalidArgument>("step {} of chunk {}, which is at {}, has not been pushed", request.info.step, id_.index,
                          version_);
  }
  request.applies = true;
  std::vector<DeferredReply> reply{answer(request, /*counted=*/true)};
  reply.back().outcome.regroup = last_regroup_;
  dispatch(forward, std::move(reply));
  measure_spread();
}

void Chunk::push_at_once(ChunkRequest request) {
  Worker& worker = workers_[request.worker];
  if (worker.left) {  // it had no work for a while
    const Step slowest = slowest_clock();
    if (slowest != ~Step{0}) worker.clock = std::max(worker.clock, slowest);
    worker.start = worker.clock;
    worker.first.reset();
    worker.left = false;
  }
  const Step clock = advance(worker, request.info.step);
  const bool fresh = units_.insert(request.info.unit);
  std::optional<Forward> forward;
  if (fresh) {
    const double factor = staleness_factor(policy_.consistency, version_ - worker.seen);
    const ChunkRequest* one = &request;
    forward = apply({&one, 1}, factor);
  }
  const auto same_worker = [&](const ChunkRequest& held) { return held.worker == request.worker; };
  std::erase_if(waiting_, same_worker);  // sent again over a new connection
  std::vector<DeferredReply> reply;
  if (may_go_on(policy_.consistency, clock, slowest_clock())) {
    reply.push_back(answer(request, fresh));
  } else {
    request.counts = fresh;
    waiting_.push_back(std::move(request));
  }
  dispatch(forward, std::move(reply));
  release_held();
}

void Chunk::release_held() {
  const Step slowest = slowest_clock();
  std::vector<DeferredReply> reply;
  std::erase_if(waiting_, [&](const ChunkRequest& held) TRIREME_REQUIRES(mutex_) {
    if (!may_go_on(policy_.consistency, workers_[held.worker].clock, slowest)) return false;
    reply.push_back(answer(held, held.counts));
    return true;
  });
  dispatch({}, std::move(reply));
}

/// Makes one update; if there is a linked replica, returns what it needs to make the same.
std::optional<Chunk::Forward> Chunk::apply(std::span<const ChunkRequest* const> requests, double factor) {
  const ScopedSpan span(policy_.spans, "update", requests.front()->info.step);
  double samples = 0;
  std::vector<Partial> partials;
  for (const ChunkRequest* request : requests) {
    samples += request->info.samples;
    stop_ = stop_ || request->info.stop;
    history_ = digest(history_, *request);
    partials.push_back({request->info.lanes, request->gradient});
  }
  ++version_;
  const ChunkRequest& first = *requests.front();
  const bool left_out = factor == kLeaveOut;
  // An empty last batch, or one that is left out: a step, but nothing to learn from it.
  const bool empty = samples <= 0 || (left_out && !id_.sums);
  if (!empty && !id_.sums) ++updates_;
  const double scale = empty || id_.sums ? 1 : factor / samples;
  const double lr = first.info.lr * id_.lr;

  std::optional<Forward> forward;
  if (any_linked()) {
    forward = Forward{.update = {.chunk = id_.index,
                                 .version = version_,
                                 .empty = empty,
                                 .updates = updates_,
                                 .lr = lr,
                                 .scale = scale,
                                 .stop = stop_,
                                 .history = history_,
                                 .prune_below = first.prune_below,
                                 .weight = last_weight_},
                      .gradient = nullptr};
    if (!policy_.consistency.synchronous()) forward->update.unit = first.info.unit;
    if (!empty) forward->gradient = policy_.pool->take(parameters_.size_bytes());
  }
  if (!empty) {
    const auto scale_after = next_scale(partials, left_out);
    if (scale_after) partials = {{.lanes = {0, policy_.lanes}, .values = scale_after->data()}};
    update_parameters({.step = updates_, .lr = lr, .gradient_scale = scale, .prune_below = first.prune_below}, partials,
                      forward ? reinterpret_cast<float*>(forward->gradient.get()) : nullptr);
  }
  return forward;
}

/// What the table becomes, if it is a loss scale.
std::optional<std::array<float, optim::LossScale::kFloats>> Chunk::next_scale(std::span<const Partial> partials,
                                                                              bool left_out) const {
  if (id_.scale_growth == 0) return std::nullopt;
  std::array<float, optim::LossScale::kFloats> told{};
  tree_sum(policy_.lanes, partials, 0, told);
  const bool finite = !left_out && told.front() == 0;
  return optim::after_step(optim::LossScale::from(parameters_), finite, id_.scale_growth).floats();
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
      gradient = sum;  // the worker could change its memory between two reads: the replica must get what is applied
    }
    if (id_.sums) {
      std::memcpy(parameters_.data() + begin, gradient.data(), gradient.size_bytes());
      continue;
    }
    optim::apply_update(update_, input, parameters_.subspan(begin, count),
                        optim::state_at(update_, state_, parameters_.size(), begin), gradient);
  }
}

// ---- Answers.

/// What the worker is told, now or when the replica has it; its copy is made now.
DeferredReply Chunk::answer(const ChunkRequest& request, bool counted) {
  if (request.copy_to != nullptr) {
    std::memcpy(request.copy_to, parameters_.data(), parameters_.size_bytes());
  }
  Worker& worker = workers_[request.worker];
  worker.seen = version_;
  if (request.gradient != nullptr || request.applies) {  // a push that was sent again may be an old one
    const Step finished = policy_.consistency.synchronous() ? request.info.step + 1 : worker.clock;
    worker.known_finished = std::max(worker.known_finished, finished);
  }
  return {request.waiter,
          {.oldest = version_, .newest = version_, .counted = counted, .repeated = !counted, .stop = stop_}};
}

bool Chunk::any_linked() const { return std::ranges::any_of(links_, &Link::linked); }

void Chunk::dispatch(const std::optional<Forward>& forward, std::vector<DeferredReply> reply) {
  if (links_.empty()) {
    for (const DeferredReply& each : reply) each.waiter->chunk_done(each.outcome);
    return;
  }
  reply = answered_by_all(std::move(reply), links_.size());
  for (const Link& link : links_) {
    if (forward && link.linked) {
      const std::size_t bytes = forward->gradient ? parameters_.size_bytes() : 0;
      link.to->forward(id_.shard, forward->update, {forward->gradient, bytes}, reply);
    } else {
      for (const DeferredReply& each : reply) link.to->defer_reply(id_.shard, link.linked, each);
    }
  }
}

void Chunk::pull(ChunkRequest request) {
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

/// The worker's clock after its push of `step`. Steps are counted from its first one in this view: each may count as
/// it likes.
Step Chunk::advance(Worker& worker, Step step) {
  if (!worker.first) worker.first = step;
  const Step now = worker.start + (step >= *worker.first ? step - *worker.first + 1 : 0);
  worker.clock = std::max(worker.clock, now);
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
    if (!worker.left) slowest = std::min(slowest, worker.clock);
  }
  return slowest;  // if all have left, nobody is waited for
}

}  // namespace trireme::ps
