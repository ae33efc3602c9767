#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plan/schedule/schedule.h"

namespace trireme::pipeline {

/// What stage `stage` needs of another rank for one micro-batch: its input, or the gradient of its output.
struct Message {
  bool forward = true;
  std::uint32_t stage = 0;  ///< that receives it
  std::uint32_t micro_batch = 0;

  /// The stage that makes it.
  std::uint32_t from() const { return forward ? stage - 1 : stage + 1; }
  auto operator<=>(const Message&) const = default;
};

/// Returns "the input of stage 2 for micro-batch 3": for messages.
std::string to_text(const Message& message);

/// Returns the message that `action`, a send or a receive, moves.
Message message_of(const plan::Action& action);

/// Returns what rank `from` sends to rank `to` in a step, in order; `schedule` has its messages
/// (`plan::with_messages`). Both ranks compute it, so that each message finds the receive that was made for it.
/// Micro-batches that `absent` names (null: none) have no messages.
std::vector<Message> messages_between(const plan::Schedule& schedule, Rank from, Rank to,
                                      const std::function<bool(std::uint32_t micro_batch)>& absent = {});

/// Returns a schedule of forwards alone, with messages, for stages placed like this: what evaluation does.
plan::Schedule forward_schedule(const std::vector<Rank>& rank_of_stage, std::uint32_t micro_batches);

}  // namespace trireme::pipeline
