#include "plan/schedule/schedule_walk.h"

#include <algorithm>

namespace trireme::plan {
namespace {

constexpr std::size_t kResults = 7;  // of a micro-batch in a stage

std::size_t result_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return 0;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return 1;
    case ActionKind::kBackwardWeight:
      return 2;
    case ActionKind::kSendForward:
      return 3;
    case ActionKind::kReceiveForward:
      return 4;
    case ActionKind::kSendBackward:
      return 5;
    case ActionKind::kReceiveBackward:
      return 6;
  }
  return kResults;
}

}  // namespace

ScheduleWalk::ScheduleWalk(const Schedule& schedule) : schedule_(schedule) {
  for (const std::vector<Action>& actions : schedule.ranks) {
    messages_ = messages_ || std::ranges::any_of(actions, [](const Action& a) { return is_message(a.kind); });
  }
}

std::size_t ScheduleWalk::ids() const { return std::size_t{schedule_.stages()} * schedule_.micro_batches * kResults; }

std::size_t ScheduleWalk::id_of(const Action& action) const {
  return (std::size_t{action.stage} * schedule_.micro_batches + action.micro_batch) * kResults + result_of(action.kind);
}

ScheduleWalk::Needs ScheduleWalk::needs(const Action& action) const {
  const auto [stage, kind, micro_batch] = action;
  Needs needs;
  const auto want = [&](std::uint32_t of, ActionKind what) {
    const Action wanted{of, what, micro_batch};
    const bool crosses = schedule_.rank_of_stage[of] != schedule_.rank_of_stage[stage];
    needs.all[needs.count++] = {wanted, id_of(wanted), crosses};
  };
  const auto received = [&](std::uint32_t from) {
    return messages_ && schedule_.rank_of_stage[from] != schedule_.rank_of_stage[stage];
  };
  switch (kind) {
    case ActionKind::kForward:
      if (stage > 0) {
        if (received(stage - 1)) {
          want(stage, ActionKind::kReceiveForward);
        } else {
          want(stage - 1, ActionKind::kForward);
        }
      }
      break;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      want(stage, ActionKind::kForward);
      if (stage + 1 < schedule_.stages()) {
        if (received(stage + 1)) {
          want(stage, ActionKind::kReceiveBackward);
        } else {
          want(stage + 1, kind);
        }
      }
      break;
    case ActionKind::kBackwardWeight:
      want(stage, ActionKind::kBackwardInput);
      break;
    case ActionKind::kSendForward:
      want(stage, ActionKind::kForward);
      break;
    case ActionKind::kReceiveForward:
      want(stage - 1, ActionKind::kSendForward);
      break;
    case ActionKind::kSendBackward:
      want(stage, ActionKind::kBackwardInput);
      break;
    case ActionKind::kReceiveBackward:
      want(stage + 1, ActionKind::kSendBackward);
      break;
  }
  return needs;
}

std::optional<ScheduleWalk::Need> ScheduleWalk::missing(Rank rank) const {
  const std::vector<Action>& actions = schedule_.ranks[rank];
  if (positions_[rank] == actions.size()) return std::nullopt;
  const Needs wanted = needs(actions[positions_[rank]]);
  const auto need = std::ranges::find_if(wanted, [&](const Need& each) { return !met_[each.id]; });
  if (need == wanted.end()) return std::nullopt;
  return *need;
}

}  // namespace trireme::plan
