#pragma once

#include <cstdint>
#include <type_traits>

#include "optim/update_config.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// What one step changed in the job's state, beside the sums of gradients and the new buffers: together with these
/// enough to make the same step on a copy of the state.
struct StepChange {
  Position after;
  bool updated = true;       ///< false: the step had no samples, or is left out; the parameters stay as they were
  bool left_out = false;     ///< its gradient was not finite: the loss scale shrinks
  optim::UpdateInput input;  ///< for every parameter
};

// A member of the job sends a learner the state, and then what every step changes in it. On the wire:
//
//   header kState    all tensors of the state, one after the other
//   header kChange   the sums of all gradients, in the order of parameters; all buffers as the step left them
//   header kAll      the learner has everything there is at the moment
//   …
//   header kEnd      nothing more follows: the members go to another view, or the learner is too far behind

struct CatchUpHeader {
  enum class Kind : std::uint32_t { kState = 1, kChange = 2, kAll = 3, kEnd = 4 };

  Kind kind = Kind::kEnd;
  std::uint32_t behind = 0;   ///< how many messages wait behind this one
  std::uint64_t version = 0;  ///< after it
  std::uint64_t updates = 0;  ///< likewise
  double lr = 0;
  double gradient_scale = 0;
  std::uint64_t left_out = 0;  ///< StepChange::left_out
  std::uint64_t bytes = 0;     ///< that follow
};
static_assert(std::is_trivially_copyable_v<CatchUpHeader>);

/// Messages are sent and received in blocks of at most this many bytes, each with a deadline of its own.
inline constexpr std::size_t kStateBlock = kMiB;

/// How long one block may take: a peer that is slower is stopped, or cut off, and is given up.
inline constexpr auto kStateBlockWithin = std::chrono::seconds(30);

}  // namespace trireme
