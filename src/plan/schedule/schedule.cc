#include "plan/schedule/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::plan {
namespace {

std::string_view letters_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "F";
    case ActionKind::kBackward:
      return "B";
    case ActionKind::kBackwardInput:
      return "I";
    case ActionKind::kBackwardWeight:
      return "W";
    case ActionKind::kSendForward:
      return "SEND_F";
    case ActionKind::kReceiveForward:
      return "RECV_F";
    case ActionKind::kSendBackward:
      return "SEND_B";
    case ActionKind::kReceiveBackward:
      return "RECV_B";
  }
  TRIREME_CHECK(false, "action {}", static_cast<int>(kind));
}

}  // namespace

bool is_message(ActionKind kind) { return kind >= ActionKind::kSendForward; }

std::string to_text(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letters_of(action.kind), action.micro_batch);
}

std::string_view name_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGpipe:
      return "gpipe";
    case ScheduleKind::k1F1B:
      return "1f1b";
    case ScheduleKind::kInterleaved:
      return "interleaved";
    case ScheduleKind::kZbH1:
      return "zb-h1";
    case ScheduleKind::kZbV:
      return "zb-v";
  }
  TRIREME_CHECK(false, "schedule {}", static_cast<int>(kind));
}

ScheduleKind parse_schedule_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleKind kind : kScheduleKinds) {
    if (name == name_of(kind)) return kind;
    names.emplace_back(name_of(kind));
  }
  fail<InvalidArgument>("there is no schedule '{}'{}: use gpipe, 1f1b, interleaved, zb-h1 or zb-v", name,
                        did_you_mean(name, names));
}

bool splits_backward(ScheduleKind kind) { return kind == ScheduleKind::kZbH1 || kind == ScheduleKind::kZbV; }

std::uint32_t usual_chunks(ScheduleKind kind) {
  return kind == ScheduleKind::kInterleaved || kind == ScheduleKind::kZbV ? 2 : 1;
}

Schedule with_messages(const Schedule& schedule) {
  Schedule result = schedule;
  const auto crosses = [&](std::uint32_t stage, std::uint32_t other) {
    return schedule.rank_of_stage[stage] != schedule.rank_of_stage[other];
  };
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    std::vector<Action>& actions = result.ranks[rank];
    actions.clear();
    for (const Action& action : schedule.ranks[rank]) {
      const bool from_before = action.stage > 0 && crosses(action.stage, action.stage - 1);
      const bool to_next = action.stage + 1 < schedule.stages() && crosses(action.stage, action.stage + 1);
      const auto add = [&](ActionKind kind) { actions.push_back({action.stage, kind, action.micro_batch}); };
      const bool forward = action.kind == ActionKind::kForward;
      const bool input_gradient = action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
      if (forward && from_before) add(ActionKind::kReceiveForward);
      if (input_gradient && to_next) add(ActionKind::kReceiveBackward);
      actions.push_back(action);
      if (forward && to_next) add(ActionKind::kSendForward);
      if (input_gradient && from_before) add(ActionKind::kSendBackward);
    }
  }
  return result;
}

}  // namespace trireme::plan
