#include "train/strategy/local_sgd.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "optim/pruning.h"
#include "tensor/broadcast.h"

namespace trireme {
namespace {

using Outer = cluster::LocalSgdChoice::Outer;

optim::UpdateConfig outer_config(const cluster::LocalSgdChoice& choice) {
  switch (choice.outer) {
    case Outer::kMomentum:
      return {.rule = optim::Rule::kMomentum, .momentum = choice.outer_momentum};
    case Outer::kNesterov:
      return {.rule = optim::Rule::kNesterov, .momentum = choice.outer_momentum};
    default:
      return {.rule = optim::Rule::kSgd};
  }
}

}  // namespace

LocalSgd::LocalSgd(collective::Communicator& ranks, const Model& model, LocalSgdOptions options)
    : ranks_(ranks),
      options_(options),
      model_(model),
      parameters_(*model.module, options_.updates),
      buffers_(*model.module) {
  if (options_.updates.config.prunes && options_.choice.elastic > 0) {
    fail<InvalidArgument>(
        "parameters cannot be pruned with elastic averaging: workers keep parameters of their own, and each would "
        "prune others; use local-sgd without elastic, allreduce or ps");
  }
  const std::size_t outer_floats = optim::state_floats(outer_config(options_.choice));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::span<float> values = parameters_.values(i);
    sums_.emplace_back(gradients_.emplace_back(values.size()));
    agreed_.emplace_back(values.begin(), values.end());
    outer_state_.emplace_back(outer_floats * values.size());
  }
}

Step LocalSgd::sync_state(const Restore& restore) {
  parameters_.show_own();
  own_.clear();
  since_ = 0;
  std::size_t total = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    std::ranges::copy(agreed_[i], parameters_.values(i).begin());
    total += parameters_.values(i).size() + parameters_.average(i).size();
  }
  if (agreed_at_.fresh && ranks_.rank() == 0 && restore.fill) {
    if (const auto restored = restore.fill(state({})->tensors, /*initial=*/true)) agreed_at_ = *restored;
  }
  const SyncResult synced = sync_to_furthest(ranks_, agreed_at_, state({})->tensors);
  agreed_at_ = synced.at;
  agreed_at_.fresh = false;
  at_ = agreed_at_;
  parameters_.take_state();
  for (std::size_t i = 0; i < parameters_.size(); ++i) std::ranges::copy(parameters_.values(i), agreed_[i].begin());
  if (options_.buffers == BufferPolicy::kAverage) total += buffers_.mean_floats();
  total += 2;  // the wishes to stop and to regroup
  memory_ = ranks_.allocate(total * sizeof(float));
  flat_ = {reinterpret_cast<float*>(memory_.get()), total};
  log_info("group_formed", "formed a group with the other workers",
           {{"view", ranks_.view()},
            {"rank", ranks_.rank()},
            {"ranks", ranks_.size()},
            {"over", ranks_.transport()},
            {"step", at_.version},
            {"meet_every", options_.choice.steps}});
  return at_.version;
}

std::optional<TrainingState> LocalSgd::state(const CheckpointRequest& request) {
  if (since_ > 0 || request.saved == agreed_at_.version) return std::nullopt;
  TrainingState state{.at = agreed_at_, .tensors = parameters_.state(), .same_everywhere = false};
  for (NamedParameter& piece : non_trainable_state(*model_.module)) state.tensors.push_back(std::move(piece));
  for (std::size_t i = 0; i < outer_state_.size(); ++i) {
    if (outer_state_[i].empty()) continue;
    const auto size = static_cast<std::int64_t>(outer_state_[i].size());
    state.tensors.push_back({fmt::format("outer/{}", i), torch::from_blob(outer_state_[i].data(), {size})});
  }
  return state;
}

void LocalSgd::begin(const StepInfo& info) {
  info_ = info;
  parameters_.show_own();
  for (std::size_t i = 0; i < own_.size(); ++i) {
    std::ranges::copy(own_[i], parameters_.values(i).begin());
    parameters_.copy_to_module(i);
  }
  own_.clear();
}

StepOutcome LocalSgd::finish() {
  take_own_step();
  stop_wanted_ = stop_wanted_ || info_.stop;
  regroup_wanted_ = info_.regroup;
  ++at_.version;
  StepOutcome done = StepOutcome::at(at_.version);
  if (++since_ >= options_.choice.steps) {
    done.stop = average();
    done.regroup = flat_[flat_.size() - 2] > 0;
  }
  return done;
}

void LocalSgd::take_own_step() {
  const ScopedSpan span(options_.spans, "update", info_.step);
  if (info_.samples <= 0) return;  // an empty last batch: a step, but nothing to learn from it
  const bool finite = parameters_.counts(sums_);
  parameters_.count(finite, info_.step);
  if (!finite) return;
  const double factor = parameters_.clip_factor(sums_, info_.samples, info_.step);
  const optim::UpdateInput input{.step = ++at_.updates, .lr = info_.lr, .gradient_scale = factor / info_.samples};
  parameters_.update(input, pruning_step(), sums_);
}

/// The first step after a meeting stands for all until the next: the last of them at which pruning is due.
Step LocalSgd::pruning_step() const {
  if (since_ > 0 || !options_.updates.config.prunes) return ~Step{0};
  for (Step step = at_.version + options_.choice.steps; step-- > at_.version;) {
    if (optim::sparsity_at(options_.updates.prune, step)) return step;
  }
  return ~Step{0};
}

/// Whether anybody wants to stop.
bool LocalSgd::average() {
  const ScopedSpan span(options_.spans, "average", info_.step);
  const std::uint64_t before = moved_bytes();
  float* at = flat_.data();
  for (std::size_t i = 0; i < parameters_.size(); ++i) at = std::ranges::copy(parameters_.values(i), at).out;
  for (std::size_t i = 0; i < parameters_.size(); ++i) at = std::ranges::copy(parameters_.average(i), at).out;
  const bool with_buffers = options_.buffers == BufferPolicy::kAverage;
  const std::span<float> buffer_means(at, with_buffers ? buffers_.mean_floats() : 0);
  if (with_buffers) pack(buffers_.means, buffer_means);
  flat_[flat_.size() - 2] = regroup_wanted_ ? 1 : 0;
  flat_.back() = stop_wanted_ ? 1 : 0;

  ranks_.run(collective::all_reduce(flat_, {.op = collective::ReduceOp::kAverage}));
  ++meetings_;
  since_ = 0;
  agreed_at_ = at_;
  at = flat_.data();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    merge(i, {at, parameters_.elements()[i]});
    parameters_.clear_pruned(i, agreed_[i]);
    parameters_.clear_pruned(i, parameters_.values(i));
    parameters_.copy_to_module(i);
    at += parameters_.elements()[i];
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::span<float> average = parameters_.average(i);
    std::ranges::copy_n(at, static_cast<std::ptrdiff_t>(average.size()), average.begin());
    at += average.size();
  }
  if (with_buffers) unpack(buffer_means, buffers_.means);
  sync_other_buffers();
  meeting_bytes_ += moved_bytes() - before;
  return flat_.back() > 0;
}

/// Makes parameter `i` what it is to be from now on, from this worker's own, the agreed one, and the mean of all
/// workers', which it may overwrite.
void LocalSgd::merge(std::size_t i, std::span<float> mean) {
  const cluster::LocalSgdChoice& choice = options_.choice;
  const std::span<float> own = parameters_.values(i);
  const std::span<float> agreed = agreed_[i];
  if (choice.elastic > 0) {
    const auto to_mean = static_cast<float>(choice.elastic);
    const auto to_centre = static_cast<float>(choice.elastic / ranks_.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
      own[k] -= to_centre * (own[k] - agreed[k]);
      agreed[k] += to_mean * (mean[k] - agreed[k]);
    }
    return;
  }
  if (choice.outer == Outer::kNone) {
    std::ranges::copy(mean, agreed.begin());
  } else {
    // What the workers moved by on the average is to the outer optimizer a gradient, of opposite sign.
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] = agreed[k] - mean[k];
    const optim::UpdateConfig config = outer_config(choice);
    optim::apply_update(config, {.step = meetings_, .lr = choice.outer_lr}, agreed,
                        optim::state_at(config, outer_state_[i], agreed.size()), mean);
  }
  std::ranges::copy(agreed, own.begin());
}

void LocalSgd::sync_other_buffers() {
  if (options_.buffers == BufferPolicy::kOwn) return;
  for (const torch::Tensor& buffer : buffers_.others) broadcast_tensor(ranks_, buffer);
  if (options_.buffers == BufferPolicy::kAverage) return;
  for (const torch::Tensor& buffer : buffers_.means) broadcast_tensor(ranks_, buffer);
}

void LocalSgd::refresh() {
  if (options_.updates.config.ema > 0) return parameters_.show_averages();
  if (left_ || !own_.empty()) return;  // they are shown already
  own_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::span<float> values = parameters_.values(i);
    own_[i].assign(values.begin(), values.end());
    std::ranges::copy(agreed_[i], values.begin());
    parameters_.copy_to_module(i);
  }
}

void LocalSgd::leave() {
  if (since_ > 0) average();
  refresh();  // an elastic centre is nobody's own
  left_ = true;
  const std::uint64_t every_step = every_step_bytes();
  log_info("last_average_done", "averaged for the last time",
           {{"steps", at_.version},
            {"meetings", meetings_},
            {"wire_bytes", moved_bytes()},
            {"every_step_bytes", every_step},
            {"saved_factor",
             moved_bytes() > 0 ? static_cast<double>(every_step) / static_cast<double>(moved_bytes()) : 1.0}});
  ranks_.run(collective::barrier());  // somebody may still read this worker's memory
}

std::uint64_t LocalSgd::moved_bytes() const {
  const collective::Traffic traffic = ranks_.traffic();
  return traffic.sent_bytes + traffic.shared_bytes;
}

std::optional<Communication> LocalSgd::communication() const {
  return Communication{.wire_bytes = moved_bytes(), .plain_bytes = every_step_bytes()};
}

std::uint64_t LocalSgd::every_step_bytes() const {
  const std::uint64_t besides = moved_bytes() - meeting_bytes_;
  return meetings_ == 0 ? besides : besides + meeting_bytes_ / meetings_ * at_.version;
}

}  // namespace trireme
