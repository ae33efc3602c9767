#include "pipeline/run_schedule.h"

#include <algorithm>

namespace trireme::pipeline {
namespace {

using plan::Action;
using plan::ActionKind;

/// Counts micro-batches between their forward and the end of their backward.
class HeldActivations {
 public:
  HeldActivations(std::uint32_t stages, RunCounts& counts) : held_(stages), counts_(counts) {
    counts_.peak_activations.resize(stages);
  }

  void begin(std::uint32_t stage) {
    counts_.peak_activations[stage] = std::max(counts_.peak_activations[stage], ++held_[stage]);
    counts_.peak_of_rank = std::max(counts_.peak_of_rank, ++all_);
  }
  void end(std::uint32_t stage) {
    --held_[stage];
    --all_;
  }

 private:
  std::vector<std::uint32_t> held_;
  std::uint32_t all_ = 0;
  RunCounts& counts_;
};

}  // namespace

RunCounts run_schedule(const plan::Schedule& schedule, Rank rank, Links& links, StageActions& actions) {
  RunCounts counts;
  HeldActivations held(schedule.stages(), counts);
  links.begin(actions, [&](std::uint32_t micro_batch) { return actions.absent(micro_batch); });
  for (const Action& action : schedule.ranks[rank]) {
    const auto [stage, kind, micro_batch] = action;
    if (actions.absent(micro_batch)) continue;
    switch (kind) {
      case ActionKind::kForward:
        held.begin(stage);
        actions.forward(stage, micro_batch);
        break;
      case ActionKind::kBackward:
        actions.backward(stage, micro_batch);
        held.end(stage);
        break;
      case ActionKind::kBackwardInput:
        actions.backward_input(stage, micro_batch);
        break;
      case ActionKind::kBackwardWeight:
        actions.backward_weight(stage, micro_batch);
        held.end(stage);
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward: {
        const Message message = message_of(action);
        links.send(message, actions.outgoing(message));
        break;
      }
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        links.receive(message_of(action));
        break;
    }
    links.advance();
  }
  links.finish();
  counts.waited = links.waited();
  return counts;
}

}  // namespace trireme::pipeline
