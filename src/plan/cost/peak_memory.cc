#include "plan/cost/peak_memory.h"

#include <algorithm>

#include "plan/cost/memory.h"

namespace trireme::plan {
namespace {

double sum_of(const StageMemory& stage, double LayerMemory::*part) {
  double sum = 0;
  for (const LayerMemory& layer : stage.layers) sum += layer.*part;
  return sum;
}

/// The most that a backward takes. `remains`: what each layer's leaves until the backward has ended; `computes`: what
/// its weights' gradients take meanwhile.
template <typename Remains, typename Computes>
double peak_of(const StageMemory& stage, const Remains& remains, const Computes& computes) {
  double kept = stage.kept();
  double peak = kept + 2 * stage.layers.back().loss;
  double made = 0;
  for (std::size_t i = stage.layers.size(); i-- > 0;) {
    const LayerMemory& layer = stage.layers[i];
    // The gradient of the logits takes the place of what the loss kept.
    peak = std::max(peak, kept + made + layer.again + layer.passing + computes(layer));
    kept -= layer.kept;
    made += remains(i);
    if (i + 1 == stage.layers.size()) made += stage.output;  // the gradient that came from the next stage
  }
  return std::max(peak, kept + made);
}

/// A pipeline delivers the gradients of a stage when all are there.
double whole_backward(const StageMemory& stage) {
  return peak_of(
      stage, [&](std::size_t i) { return stage.layers[i].gradients; },
      [](const LayerMemory& layer) { return layer.largest; });
}

/// I: gradients of weights are left for later, with what they need.
double input_backward(const StageMemory& stage) {
  return peak_of(
      stage, [&](std::size_t i) { return stage.layers[i].deferred; },
      [](const LayerMemory& layer) { return layer.passing_more; });
}

/// W: what one needs goes when it is computed.
double weight_backward(const StageMemory& stage) {
  double left = stage.deferred();
  double made = 0;
  double peak = left;
  for (std::size_t i = stage.layers.size(); i-- > 0;) {
    const LayerMemory& layer = stage.layers[i];
    peak = std::max(peak, left + made + layer.largest);
    left -= layer.deferred;
    made += layer.gradients;
    peak = std::max(peak, left + made);
  }
  return peak;
}

/// The actions of a rank, one after the other.
class RankWalk {
 public:
  RankWalk(const PipelineShare& share, std::span<const StageMemory> stages, const Evaluation& evaluation)
      : share_(share), stages_(stages), done_(stages.size()) {
    std::uint32_t lanes = 0;
    for (const ActionTime& action : evaluation.actions) {
      lanes = std::max(lanes, action.action.micro_batch + 1);
      const bool weights =
          action.action.kind == ActionKind::kBackward || action.action.kind == ActionKind::kBackwardWeight;
      if (weights && action.action.stage == 0) first_gradients_.push_back(action.end);
    }
    std::ranges::sort(first_gradients_);
    before_ = share.lanes - std::min(share.lanes, lanes);
    count_tied(0);
  }

  void make(const ActionTime& timed) {
    const std::uint32_t stage = timed.action.stage;
    const StageMemory& memory = stages_[stage];
    switch (timed.action.kind) {
      case ActionKind::kForward:
        held_ += memory.kept();
        note(0);
        return;
      case ActionKind::kBackward:
        note(whole_backward(memory) - memory.kept());
        held_ -= memory.kept();
        return deliver(stage, timed.end);
      case ActionKind::kBackwardInput:
        note(input_backward(memory) - memory.kept());
        held_ += memory.deferred() - memory.kept();
        return;
      case ActionKind::kBackwardWeight:
        note(weight_backward(memory) - memory.deferred());
        held_ -= memory.deferred();
        return deliver(stage, timed.end);
      default:
        return;
    }
  }

  const PeakMemory& peak() const { return peak_; }

 private:
  /// The gradients of a lane are there: sums that are complete go on, and the others wait.
  void deliver(std::uint32_t stage, double now) {
    note(stages_[stage].gradients());
    ++done_[stage];
    count_tied(now);
  }

  /// Lanes of which both halves of the tied parameter's gradient are here.
  void count_tied(double now) {
    const bool here = share_.tied_rank == share_.rank;
    const auto arrived = std::ranges::upper_bound(first_gradients_, here ? now : now - share_.message);
    tied_done_ = before_ + static_cast<std::uint32_t>(arrived - first_gradients_.begin());
    // One from another rank comes in two messages, the number of its rows and the rows
    // (train/pipeline/tied_gradients.h), and each is noticed when a lane's gradients are delivered here.
    if (!here) tied_done_ = std::min(tied_done_, (before_ + done_.back()) / 2);
  }

  double sums() const {
    double sum = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (share_.summed[stage] > 0) sum += share_.summed[stage] * waiting_sums(share_.lanes, before_ + done_[stage]);
    }
    if (share_.tied == 0) return sum;
    // The last stage's half of a lane's gradient waits for the first stage's.
    const std::uint32_t halves = before_ + done_.back() - std::min(before_ + done_.back(), tied_done_);
    return sum + share_.tied * (halves + waiting_sums(share_.lanes, tied_done_));
  }

  void note(double working) {
    const PeakMemory now{.activations = held_, .sums = sums(), .working = working};
    if (now.total() > peak_.total()) peak_ = now;
  }

  const PipelineShare& share_;
  const std::span<const StageMemory> stages_;
  std::vector<std::uint32_t> done_;      // lanes, by stage
  std::vector<double> first_gradients_;  // when those of the first stage were there, in order
  std::uint32_t before_ = 0;             // lanes that were not run: they are taken as done
  std::uint32_t tied_done_ = 0;
  double held_ = 0;
  PeakMemory peak_;
};

}  // namespace

double StageMemory::kept() const { return sum_of(*this, &LayerMemory::kept) + output; }
double StageMemory::deferred() const { return sum_of(*this, &LayerMemory::deferred); }
double StageMemory::gradients() const { return sum_of(*this, &LayerMemory::gradients); }

double backward_peak(const StageMemory& stage, double tied) {
  return peak_of(
      stage, [&](std::size_t i) { return i + 1 == stage.layers.size() ? tied : 0; },
      [](const LayerMemory& layer) { return layer.largest; });
}

PeakMemory pipeline_peak(const PipelineShare& share, std::span<const StageMemory> stages,
                         const Evaluation& evaluation) {
  RankWalk walk(share, stages, evaluation);
  for (const ActionTime& action : evaluation.actions) {
    if (action.rank == share.rank) walk.make(action);
  }
  return walk.peak();
}

}  // namespace trireme::plan
