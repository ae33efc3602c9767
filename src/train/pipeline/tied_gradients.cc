#include "train/pipeline/tied_gradients.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/device/host_memory.h"

namespace trireme::parallel {
namespace {

using collective::Array;
using collective::ConstArray;
using collective::PendingOperation;
using plan::ActionKind;

constexpr std::int64_t kNoGradient = -1;

std::uint32_t stage_of(std::size_t layer, const std::vector<LayerRange>& stages) {
  std::uint32_t stage = 0;
  while (layer >= stages[stage].end) ++stage;
  return stage;
}

Array bytes_to_fill(torch::Tensor& tensor) { return {DType::kU8, tensor.data_ptr(), tensor.nbytes()}; }
ConstArray bytes_to_send(const torch::Tensor& tensor) { return {DType::kU8, tensor.data_ptr(), tensor.nbytes()}; }
Array number(std::int64_t& value) { return {DType::kI64, &value, 1}; }

/// A tensor as rows: the first dimension, and all the rest.
torch::Tensor as_rows(const torch::Tensor& tensor) {
  return tensor.reshape({tensor.dim() == 0 ? 1 : tensor.size(0), -1});
}

}  // namespace

std::vector<TiedStages> tied_stages(const LayerList& layers, const std::vector<LayerRange>& stages) {
  std::vector<TiedStages> ties;
  for (const Tie& tie : layers.ties()) {
    TiedStages tied{.parameter = tie.parameter};
    for (const std::string& layer : tie.layers) {
      const std::uint32_t stage = stage_of(layers.index_of(layer), stages);
      if (tied.stages.empty() || tied.stages.back() != stage) tied.stages.push_back(stage);
    }
    if (tied.stages.size() > 1) ties.push_back(std::move(tied));
  }
  return ties;
}

TiedGradients::TiedGradients(collective::Communicator& ranks, const plan::Schedule& schedule,
                             std::vector<TiedStages> ties, std::vector<torch::Tensor> parameters)
    : schedule_(schedule), ties_(std::move(ties)), parameters_(std::move(parameters)), rank_(ranks.rank()) {
  const bool apart = std::ranges::any_of(ties_, [&](const TiedStages& tie) {
    return std::ranges::any_of(tie.stages, [&](std::uint32_t stage) {
      return schedule.rank_of_stage[stage] != schedule.rank_of_stage[tie.stages.back()];
    });
  });
  if (!apart) return;
  std::vector<Rank> all(ranks.size());
  std::iota(all.begin(), all.end(), 0);
  ranks_ = ranks.subgroup("ties", all);
}

void TiedGradients::begin(OnGradient on_gradient, const std::function<bool(std::uint32_t lane)>& absent) {
  on_gradient_ = std::move(on_gradient);
  incoming_.clear();
  sent_.clear();
  parts_.clear();
  for (Rank peer = 0; peer < schedule_.ranks.size(); ++peer) {
    if (peer == rank_) continue;
    Incoming incoming;
    for (const plan::Action& action : schedule_.ranks[peer]) {
      const bool weights = action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight;
      if (!weights || absent(action.micro_batch)) continue;
      for (std::size_t tie = 0; tie < ties_.size(); ++tie) {
        if (owner(tie) != rank_ || !parameters_[tie].defined()) continue;  // frozen: it has no gradients
        if (std::ranges::count(ties_[tie].stages, action.stage) == 0) continue;
        incoming.expected.push_back({tie, action.stage, action.micro_batch});
      }
    }
    if (!incoming.expected.empty()) incoming_.emplace(peer, std::move(incoming));
  }
  advance();
}

void TiedGradients::add(std::size_t tie, std::uint32_t stage, Lane lane, torch::Tensor gradient) {
  if (owner(tie) == rank_) {
    take(tie, stage, lane, std::move(gradient));
  } else {
    send(tie, std::move(gradient));
  }
}

void TiedGradients::send(std::size_t tie, torch::Tensor gradient) {
  const torch::NoGradGuard no_grad;
  const Rank to = owner(tie);
  sent_.push_back({.rows = kNoGradient});
  Sent& sent = sent_.back();
  if (gradient.defined()) {
    const torch::Tensor rows = as_rows(on_host(gradient));
    sent.indices = rows.ne(0).any(1).nonzero().squeeze(1);
    sent.values = rows.index_select(0, sent.indices);
    sent.rows = sent.indices.numel();
  }
  sent.operations.emplace_back(*ranks_, collective::send(number(sent.rows), to));
  if (sent.rows > 0) {
    sent.operations.emplace_back(*ranks_, collective::send(bytes_to_send(sent.indices), to));
    sent.operations.emplace_back(*ranks_, collective::send(bytes_to_send(sent.values), to));
  }
  while (std::ranges::all_of(sent_.front().operations, &PendingOperation::poll)) {
    for (PendingOperation& operation : sent_.front().operations) operation.wait();
    sent_.pop_front();
    if (sent_.empty()) break;
  }
}

/// Moves the first gradient that a rank still has to send along; false if it has to wait (or `wait`s), or is done.
bool TiedGradients::step(Rank rank, Incoming& incoming, bool wait) {
  const torch::NoGradGuard no_grad;
  if (incoming.expected.empty()) return false;
  const Expected next = incoming.expected.front();
  const torch::Tensor& like = parameters_[next.tie];
  if (!incoming.header) {
    incoming.header.emplace(*ranks_, collective::recv(number(incoming.rows), rank));
    return wait || incoming.header->poll();
  }
  if (incoming.data.empty()) {
    if (!wait && !incoming.header->poll()) return false;
    incoming.header->wait();
    const torch::Tensor shape = as_rows(like.detach());
    if (incoming.rows < kNoGradient || incoming.rows > shape.size(0)) {
      fail<Corrupt>("rank {} sends {} rows of '{}', which has {}", rank, incoming.rows, ties_[next.tie].parameter,
                    shape.size(0));
    }
    if (incoming.rows > 0) {
      incoming.indices = torch::empty({incoming.rows}, torch::kInt64);
      incoming.values = torch::empty({incoming.rows, shape.size(1)}, torch::dtype(like.scalar_type()));
      incoming.data.emplace_back(*ranks_, collective::recv(bytes_to_fill(incoming.indices), rank));
      incoming.data.emplace_back(*ranks_, collective::recv(bytes_to_fill(incoming.values), rank));
      return true;
    }
  }
  if (!wait && !std::ranges::all_of(incoming.data, &PendingOperation::poll)) return false;
  for (PendingOperation& operation : incoming.data) operation.wait();
  torch::Tensor gradient;
  if (incoming.rows != kNoGradient) {
    gradient = torch::zeros(like.sizes(), torch::dtype(like.scalar_type()));
    if (incoming.rows > 0) as_rows(gradient).index_copy_(0, incoming.indices, incoming.values);
  }
  incoming.data.clear();
  incoming.header.reset();
  incoming.expected.pop_front();
  take(next.tie, next.stage, next.lane, gradient.defined() ? gradient.to(like.device()) : gradient);
  return true;
}

void TiedGradients::take(std::size_t tie, std::uint32_t stage, Lane lane, torch::Tensor gradient) {
  const torch::NoGradGuard no_grad;
  auto& parts = parts_[{tie, lane}];
  TRIREME_CHECK(parts.emplace(stage, std::move(gradient)).second, "a tied gradient twice");
  if (parts.size() < ties_[tie].stages.size()) return;
  torch::Tensor sum;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (!part->second.defined()) continue;
    sum = sum.defined() ? sum + part->second : part->second;
  }
  parts_.erase({tie, lane});
  on_gradient_(tie, lane, sum);
}

void TiedGradients::advance() {
  for (auto& [rank, incoming] : incoming_) {
    while (step(rank, incoming, /*wait=*/false)) {
    }
  }
}

void TiedGradients::finish() {
  for (auto& [rank, incoming] : incoming_) {
    while (step(rank, incoming, /*wait=*/true)) {
    }
  }
  for (Sent& sent : sent_) {
    for (PendingOperation& operation : sent.operations) operation.wait();
  }
  sent_.clear();
  TRIREME_CHECK(parts_.empty(), "a tied gradient that is not complete");
}

void TiedGradients::abort(const std::string& reason) {
  if (ranks_) ranks_->abort(reason);
}

void TiedGradients::share_values() {
  if (!ranks_) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> memory(ties_.size());
  std::vector<collective::Operation> group;
  for (std::size_t tie = 0; tie < ties_.size(); ++tie) {
    if (!parameters_[tie].defined()) continue;
    memory[tie] = on_host(parameters_[tie].detach()).contiguous();
    std::vector<Rank> users;
    for (const std::uint32_t stage : ties_[tie].stages) users.push_back(schedule_.rank_of_stage[stage]);
    std::ranges::sort(users);
    users.erase(std::unique(users.begin(), users.end()), users.end());
    if (owner(tie) != rank_) {
      memory[tie] = torch::empty_like(memory[tie]);
      group.push_back(collective::recv(bytes_to_fill(memory[tie]), owner(tie)));
      continue;
    }
    for (const Rank user : users) {
      if (user != rank_) group.push_back(collective::send(bytes_to_send(memory[tie]), user));
    }
  }
  if (!group.empty()) ranks_->run(std::move(group));
  for (std::size_t tie = 0; tie < ties_.size(); ++tie) {
    if (memory[tie].defined() && owner(tie) != rank_) parameters_[tie].copy_(memory[tie]);
  }
}

}  // namespace trireme::parallel
