// A chunk's life beyond gradients: views, whole states, and what a replica does.

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ps/chunk.h"
#include "ps/replica_link.h"
#include "ps/write_scope.h"

namespace trireme::ps {
namespace {

/// Waits for several replicas on behalf of one waiter.
class AllOf final : public ChunkWaiter {
 public:
  AllOf(std::shared_ptr<ChunkWaiter> waiter, std::size_t count) : waiter_(std::move(waiter)), left_(count) {}

  void chunk_done(const StepOutcome& outcome) override {
    if (--left_ == 0) waiter_->chunk_done(outcome);
  }
  void chunk_refused(const std::exception& reason) override {
    if (!refused_.exchange(true)) waiter_->chunk_refused(reason);  // `left_` never gets to zero
  }

 private:
  const std::shared_ptr<ChunkWaiter> waiter_;
  std::atomic<std::size_t> left_;
  std::atomic<bool> refused_{false};
};

}  // namespace

std::vector<DeferredReply> answered_by_all(std::vector<DeferredReply> reply, std::size_t count) {
  if (count < 2) return reply;
  for (DeferredReply& each : reply) each.waiter = std::make_shared<AllOf>(std::move(each.waiter), count);
  return reply;
}

// ---- Views.

void Chunk::enter(View view, std::uint32_t workers, std::vector<std::shared_ptr<ReplicaLink>> links) {
  std::vector<ChunkRequest> dropped;
  {
    const MutexLock lock(mutex_);
    // All start at the same clock, in this chunk as in all others, and have just got the newest parameters: leads from
    // the view before mean nothing any more. Were they kept, two servers that saw different pushes last could each
    // hold back the worker that the other one waits for.
    const Step start = policy_.consistency.synchronous() || workers == 0 ? version_ : version_ / workers;
    workers_.assign(workers, {.start = start, .clock = start, .known_finished = start, .seen = version_});
    view_ = view;
    links_.clear();
    for (std::shared_ptr<ReplicaLink>& link : links) links_.push_back({.to = std::move(link)});
    snapshot_wanted_ = 0;
    weighed_.reset();
    dropped.swap(waiting_);
    dropped.insert(dropped.end(), std::make_move_iterator(early_.begin()), std::make_move_iterator(early_.end()));
    early_.clear();
  }
  for (const ChunkRequest& request : dropped) {
    request.waiter->chunk_refused(StaleView(
        fmt::format("view {} has ended, this server is in view {}: send it again there", request.view, view)));
  }
}

void Chunk::check_view(View view) const {
  if (view != view_) fail<StaleView>("this server is in view {}, the request in view {}: rejoin the job", view_, view);
}

void Chunk::link(const ReplicaLink* caller, std::uint64_t replica_history) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(links_, caller, [](const Link& link) { return link.to.get(); });
  if (found == links_.end()) return;
  found->linked = true;
  if (replica_history == history_) return;
  auto [header, state] = copy_state();
  found->to->install(id_.shard, std::move(header), std::move(state), {}, /*initial=*/true);
}

// ---- Whole chunks.

void Chunk::assign(std::span<const float> values, View view, std::shared_ptr<ChunkWaiter> waiter) {
  const MutexLock lock(mutex_);
  check_view(view);
  TRIREME_CHECK(values.size() == parameters_.size());
  const bool changes = version_ == 0;
  if (changes) {
    const WriteScope writing(*version_word_);
    std::memcpy(parameters_.data(), values.data(), values.size_bytes());
    history_ = mix_seed(history_, 1);
  }
  assigned_ = true;
  std::vector<DeferredReply> reply{{std::move(waiter), {.oldest = version_, .newest = version_, .stop = stop_}}};
  for (const ChunkRequest& request : early_) reply.push_back(answer(request, /*counted=*/true));
  early_.clear();
  if (changes) {
    dispatch_whole(std::move(reply));
  } else {
    dispatch({}, std::move(reply));
  }
}

void Chunk::restore(const ChunkHeader& header, std::span<const float> values, View view,
                    std::shared_ptr<ChunkWaiter> waiter) {
  const MutexLock lock(mutex_);
  check_view(view);
  take(header, values);
  std::vector<DeferredReply> reply{{std::move(waiter), {.oldest = version_, .newest = version_, .stop = stop_}}};
  for (const ChunkRequest& request : early_) reply.push_back(answer(request, /*counted=*/true));
  early_.clear();
  dispatch_whole(std::move(reply));
}

void Chunk::clear(View view) {
  const MutexLock lock(mutex_);
  check_view(view);
  assigned_ = false;
}

void Chunk::install(const ChunkHeader& header, std::span<const float> values, View view) {
  const MutexLock lock(mutex_);
  check_view(view);
  take(header, values);
}

void Chunk::take(const ChunkHeader& header, std::span<const float> values) {
  if (values.size() != state_and_parameter_floats()) {
    fail<Corrupt>("chunk {} has {} floats of parameters and state, the message {}", id_.index,
                  state_and_parameter_floats(), values.size());
  }
  UnitSet units(header.units);  // throws before anything has changed
  {
    const WriteScope writing(*version_word_);
    std::memcpy(parameters_.data(), values.data(), parameters_.size_bytes());
  }
  std::copy(values.begin() + static_cast<std::ptrdiff_t>(parameters_.size()), values.end(), state_.begin());
  units_ = std::move(units);
  assigned_ = header.assigned;
  stop_ = header.stop;
  version_ = header.version;
  updates_ = header.updates;
  history_ = header.history;
  last_weight_ = header.weight;
}

std::pair<ChunkHeader, ChunkState> Chunk::state() {
  const MutexLock lock(mutex_);
  return copy_state();
}

std::pair<ChunkHeader, ChunkState> Chunk::copy_state() const {
  ChunkHeader header{.chunk = id_.index,
                     .assigned = assigned_,
                     .stop = stop_,
                     .version = version_,
                     .updates = updates_,
                     .history = history_,
                     .units = units_.runs(),
                     .weight = last_weight_};
  ChunkState state{.memory = policy_.pool->take(state_and_parameter_floats() * sizeof(float)),
                   .bytes = state_and_parameter_floats() * sizeof(float)};
  std::memcpy(state.memory.get(), parameters_.data(), parameters_.size_bytes());
  if (!state_.empty()) std::memcpy(state.memory.get() + parameters_.size_bytes(), state_.data(), state_bytes());
  return {std::move(header), std::move(state)};
}

bool Chunk::snapshot_at(Step version, View view) {
  const MutexLock lock(mutex_);
  check_view(view);
  if (!assigned_) return false;
  if (version_ == version) {
    give_snapshot();
    return true;
  }
  if (!policy_.consistency.synchronous() || version_ + 1 != version) return false;
  snapshot_wanted_ = version;
  return true;
}

void Chunk::give_snapshot() const {
  if (!policy_.on_snapshot) return;
  auto [header, state] = copy_state();
  policy_.on_snapshot(header, std::move(state));
}

std::uint64_t Chunk::history() {
  const MutexLock lock(mutex_);
  return history_;
}

std::pair<bool, Step> Chunk::load_status() {
  const MutexLock lock(mutex_);
  return {assigned_, version_};
}

/// The chunk has become another: the replicas need all of it. Before they are linked it is compared, and sent.
void Chunk::dispatch_whole(std::vector<DeferredReply> reply) {
  if (!any_linked()) return dispatch({}, std::move(reply));
  const auto [header, state] = copy_state();
  reply = answered_by_all(std::move(reply), links_.size());
  for (const Link& link : links_) {
    if (link.linked) {
      link.to->install(id_.shard, header, state, reply, /*initial=*/false);
    } else {
      for (const DeferredReply& each : reply) link.to->defer_reply(id_.shard, /*linked=*/false, each);
    }
  }
}

// ---- For replicas.

void Chunk::replicate(const ReplicaUpdate& update, std::span<const float> gradient, View view) {
  const MutexLock lock(mutex_);
  check_view(view);
  const optim::UpdateInput input{
      .step = update.updates, .lr = update.lr, .gradient_scale = update.scale, .prune_below = update.prune_below};
  if (!update.empty && !id_.sums) optim::validate(input);
  if (update.version != version_ + 1 || update.updates != updates_ + (update.empty || id_.sums ? 0 : 1)) {
    fail<Corrupt>("update {} of chunk {} (version {}) does not follow number {} (version {}), which is the last here",
                  update.updates, id_.index, update.version, updates_, version_);
  }
  if (gradient.size() != (update.empty ? 0 : parameters_.size())) {
    fail<Corrupt>("an update of chunk {} brings {} floats where {} belong", id_.index, gradient.size(),
                  update.empty ? 0 : parameters_.size());
  }
  if (!policy_.consistency.synchronous() && !units_.insert(update.unit)) {
    fail<Corrupt>("unit {} of chunk {} was applied already", update.unit, id_.index);
  }
  if (!update.empty) {
    const Partial all{.lanes = {0, policy_.lanes}, .values = gradient.data()};
    update_parameters(input, {&all, 1}, nullptr);
  }
  version_ = update.version;
  updates_ = update.updates;
  history_ = update.history;
  last_weight_ = update.weight;
  assigned_ = true;
  stop_ = stop_ || update.stop;
}

}  // namespace trireme::ps
