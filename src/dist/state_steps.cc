// The steps of a State: lanes, what travels with the gradients, and the end of a step.

#include <torch/utils.h>

#include "base/error.h"
#include "base/random.h"
#include "dist/state.h"
#include "job/termination.h"

namespace trireme::dist {

void State::Impl::check_in_view(const char* call) const {
  if (!in_view_) fail<InvalidArgument>("state.{}() belongs into the loop that dist::elastic runs", call);
}

// ---- Whether all go on.

State::Impl::Message State::Impl::wishes() const {
  return {job_.stop_requested() ? 1.0f : 0.0f, job_.regroup_wanted() ? 1.0f : 0.0f,
          checkpoints_ && checkpoints_->busy() ? 1.0f : 0.0f};
}

void State::Impl::heed(const Message& of_all) {
  const auto [stop, regroup, saving] = of_all;
  saving_ = saving > 0;
  if (stop > 0 || regroup > 0) agreed_ = LoopLeft{.stop = stop > 0};
}

void State::Impl::leave_if_agreed() {
  if (agreed_) throw *std::exchange(agreed_, std::nullopt);
}

// ---- A step.

void State::Impl::begin_step() {
  check_in_view("lanes");
  if (in_step_) fail<InvalidArgument>("step {} was begun and not made: call optimizer.step() after its lanes", step());
  if (optimizer_ != nullptr) {
    settle();
    save_if_due();
    leave_if_agreed();
    optimizer_->begin_step(mine_.count);
    message_ = wishes();
    message_pending_ =
        collective::PendingOperation(optimizer_->ranks(), collective::all_reduce(std::span<float>(message_)));
    for (Buffers& buffers : buffers_) buffers.lanes.begin_step();
    in_step_ = true;
    trace_.begin(step(), mine_);
  }
  computed_ = 0;
  in_lane_ = false;
}

const LaneBatch* State::Impl::next_lane() {
  if (in_lane_) end_lane();
  for (; computed_ < mine_.count; end_lane()) {
    lane_ = {.lane = mine_.first + computed_, .indices = sampler_.indices(step(), mine_.first + computed_)};
    begin_lane();
    if (!lane_.indices.empty()) return &lane_;  // the last batch of an epoch can have fewer samples than lanes
  }
  end_lanes();
  return nullptr;
}

void State::Impl::begin_lane() {
  in_lane_ = true;
  // Random numbers belong to (seed, step, lane), not to the worker that happens to compute them.
  torch::manual_seed(mix_seed(sampler_.config().seed, step(), lane_.lane));
  if (optimizer_ == nullptr) return;
  const auto samples = static_cast<double>(lane_.indices.size());
  optimizer_->begin_lane(optimizer_->averages() ? samples / static_cast<double>(sampler_.batch_size(step())) : 1);
  for (Buffers& buffers : buffers_) {
    if (buffers.sync->sums()) buffers.lanes.begin_lane();
  }
}

void State::Impl::end_lane() {
  in_lane_ = false;
  const LaneSum& sum = sums_[computed_++];
  if (optimizer_ == nullptr) return;
  optimizer_->end_lane();
  for (Buffers& buffers : buffers_) {
    const auto sums = buffers.sync->sums();
    if (!sums) continue;
    buffers.lanes.end_lane(sum.level, *sums);
    for (const std::size_t level : sum.adds) buffers.lanes.add(level, *sums);
  }
}

/// All lanes of this rank are computed, all gradients on their way.
void State::Impl::end_lanes() {
  torch::manual_seed(mix_seed(sampler_.config().seed, step(), sampler_.config().lanes));
  if (optimizer_ == nullptr) return;
  for (Buffers& buffers : buffers_) {
    if (buffers.sync->sums()) buffers.lanes.end_step();
    buffers.sync->start();
  }
}

void State::Impl::complete_step() {
  check_in_view("lanes");
  if (!in_step_) fail<InvalidArgument>("optimizer.step() without a step: go through state.lanes() first");
  message_pending_.wait();
  for (Buffers& buffers : buffers_) buffers.sync->wait();
}

Step State::Impl::step_made() {
  for (Buffers& buffers : buffers_) buffers.sync->apply();
  heed(message_);
  in_step_ = false;
  trace_.end();
  at_.settled = false;  // until what the loop does after it is done as well
  return at_.updates = ++at_.version;
}

void State::Impl::next_step() {
  check_in_view("next_step");
  if (optimizer_ != nullptr) fail<InvalidArgument>("state.next_step() is what optimizer.step() does by itself");
  ++at_.version;
}

void State::Impl::commit() {
  check_in_view("commit");
  if (optimizer_ != nullptr) fail<InvalidArgument>("state.commit() is what optimizer.step() does by itself");
  message_ = wishes();
  world_.ranks().run(collective::all_reduce(std::span<float>(message_)));
  ++at_.updates;  // of those that have made as many steps, who has committed more is further
  keep();
  heed(message_);
  save_if_due();
  leave_if_agreed();
}

}  // namespace trireme::dist
