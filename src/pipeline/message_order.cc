#include "pipeline/message_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"

namespace trireme::pipeline {

using plan::Action;
using plan::ActionKind;

std::string to_text(const Message& message) {
  return fmt::format("{} of stage {} for micro-batch {}", message.forward ? "the input" : "the output's gradient",
                     message.stage, message.micro_batch);
}

Message message_of(const Action& action) {
  switch (action.kind) {
    case ActionKind::kSendForward:
      return {true, action.stage + 1, action.micro_batch};
    case ActionKind::kReceiveForward:
      return {true, action.stage, action.micro_batch};
    case ActionKind::kSendBackward:
      return {false, action.stage - 1, action.micro_batch};
    case ActionKind::kReceiveBackward:
      return {false, action.stage, action.micro_batch};
    default:
      TRIREME_CHECK(false, "an action that is no message");
      return {};
  }
}

std::vector<Message> messages_between(const plan::Schedule& schedule, Rank from, Rank to,
                                      const std::function<bool(std::uint32_t micro_batch)>& absent) {
  std::vector<Message> messages;
  for (const Action& action : schedule.ranks[from]) {
    if (action.kind != ActionKind::kSendForward && action.kind != ActionKind::kSendBackward) continue;
    const Message message = message_of(action);
    if (schedule.rank_of_stage[message.stage] != to || (absent && absent(message.micro_batch))) continue;
    messages.push_back(message);
  }
  return messages;
}

plan::Schedule forward_schedule(const std::vector<Rank>& rank_of_stage, std::uint32_t micro_batches) {
  const auto stages = static_cast<std::uint32_t>(rank_of_stage.size());
  const Rank ranks = 1 + *std::ranges::max_element(rank_of_stage);
  plan::Schedule schedule{.name = "forward",
                          .micro_batches = micro_batches,
                          .rank_of_stage = rank_of_stage,
                          .ranks = std::vector<std::vector<Action>>(ranks)};
  // A micro-batch is in stage s when the one behind it is in s - 1: what an action needs was made a tick before.
  for (std::uint32_t tick = 0; tick + 1 < stages + micro_batches; ++tick) {
    for (std::uint32_t stage = 0; stage < stages; ++stage) {
      if (tick < stage || tick - stage >= micro_batches) continue;
      schedule.ranks[rank_of_stage[stage]].push_back({stage, ActionKind::kForward, tick - stage});
    }
  }
  return plan::with_messages(schedule);
}

}  // namespace trireme::pipeline
