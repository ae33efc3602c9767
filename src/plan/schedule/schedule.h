#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/types.h"

namespace trireme::plan {

/// What a rank does with one micro-batch in one stage of a pipeline.
enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,         ///< both gradients at once
  kBackwardInput,    ///< the gradient of the stage's input, which the stage before waits for
  kBackwardWeight,   ///< the gradient of its parameters, which nobody waits for before the end of the step
  kSendForward,      ///< the stage's output, to the next stage
  kReceiveForward,   ///< the stage's input, from the stage before
  kSendBackward,     ///< the gradient of the stage's input, to the stage before
  kReceiveBackward,  ///< the gradient of the stage's output, from the next stage
};

/// Whether it moves data between ranks instead of computing.
bool is_message(ActionKind kind);

/// One entry of a rank's list.
struct Action {
  std::uint32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::uint32_t micro_batch = 0;

  auto operator<=>(const Action&) const = default;
};

/// As in PyTorch's files: `0F3` is the forward of micro-batch 3 in stage 0; B, I, W, SEND_F, RECV_F, SEND_B, RECV_B.
std::string to_text(const Action& action);

/// What every rank of a pipeline does in a step, in order. A rank walks its list; an action begins when those before it
/// in the list have ended and what it needs is there. Sends do not wait for the receiver, and messages are matched by
/// stage and micro-batch, so whatever passes `check_schedule` cannot deadlock.
struct Schedule {
  std::string name;
  std::uint32_t micro_batches = 1;
  std::vector<Rank> rank_of_stage;         ///< [stage]; neighbouring stages may be on one rank
  std::vector<std::vector<Action>> ranks;  ///< [rank][position]

  std::uint32_t stages() const { return static_cast<std::uint32_t>(rank_of_stage.size()); }
  bool operator==(const Schedule&) const = default;
};

enum class ScheduleKind : std::uint8_t {
  kGpipe,        ///< all forwards, then all backwards (Huang et al. 2019, https://arxiv.org/abs/1811.06965)
  k1F1B,         ///< a backward as early as possible, which holds fewer activations (Narayanan et al. 2019)
  kInterleaved,  ///< 1F1B with several chunks per rank (Narayanan et al. 2021, https://arxiv.org/abs/2104.04473)
  kZbH1,         ///< backward split, at 1F1B's memory (Qi et al. 2024, https://arxiv.org/abs/2401.10241)
  kZbV,          ///< the same with two chunks per rank, placed in the form of a V (there, section 6)
};

inline constexpr std::array kScheduleKinds = {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
                                              ScheduleKind::kZbH1, ScheduleKind::kZbV};

/// "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"; the text lives forever.
std::string_view name_of(ScheduleKind kind);

/// Throws InvalidArgument with the names there are, and the one that was probably meant.
ScheduleKind parse_schedule_kind(std::string_view name);

/// Whether its backward is split into input and weight gradients.
bool splits_backward(ScheduleKind kind);

struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::k1F1B;
  std::uint32_t ranks = 1;          ///< of the dimension pipe
  std::uint32_t micro_batches = 1;  ///< any number, also fewer than ranks
  std::uint32_t chunks = 1;         ///< stages per rank; 2 for zb-v, 1 for those that are not interleaved

  bool operator==(const ScheduleShape&) const = default;
};

/// How large a schedule may be: beyond it a request is a slip of the keyboard.
inline constexpr std::uint32_t kMostStages = 4096;
inline constexpr std::uint32_t kMostMicroBatches = 65536;
inline constexpr std::uint64_t kMostActions = 1u << 23;

/// The number of chunks that `kind` has unless told otherwise: 2 for interleaved and zb-v, else 1.
std::uint32_t usual_chunks(ScheduleKind kind);

/// Returns the schedule, without messages. A pure function: every rank computes the same one. Throws InvalidArgument if
/// a number is 0, if `chunks` does not fit the kind, or if it would be too large.
Schedule make_schedule(const ScheduleShape& shape);

/// Returns `schedule`, which must be sound and without messages, with what moves between ranks: a send right after the
/// action that made the data, a receive right before the one that needs it. Stages on one rank hand over in memory.
Schedule with_messages(const Schedule& schedule);

}  // namespace trireme::plan
