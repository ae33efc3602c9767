#pragma once

#include <cstdint>
#include <type_traits>

#include "optim/update_config.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// What one step has made of a job's state, beside sums of gradients and new buffers: enough to make the same of a copy
/// of it.
struct StepChange {
  Position after;
  bool updated = true;       ///< else there was nothing to learn in it
  optim::UpdateInput input;  ///< for every parameter
};

// A member of the job tells a guest what the state is, and then, step by step, what becomes of it. On the wire:
//
//   header kState    all tensors of the state, one after the other
//   header kChange   the sums of all gradients, in the order of parameters; all buffers as the step left them
//   header kAll      nothing is left to tell at the moment
//   …
//   header kEnd      nothing more is told: the members meet in another view, or the guest is too far behind

struct CatchUpHeader {
  enum class Kind : std::uint32_t { kState = 1, kChange = 2, kAll = 3, kEnd = 4 };

  Kind kind = Kind::kEnd;
  std::uint32_t behind = 0;   ///< how many messages wait behind this one
  std::uint64_t version = 0;  ///< after it
  std::uint64_t updates = 0;  ///< likewise
  double lr = 0;
  double gradient_scale = 0;
  std::uint64_t bytes = 0;  ///< that follow
};
static_assert(std::is_trivially_copyable_v<CatchUpHeader>);

/// Whoever takes, or tells, no more of a message that has begun for so long is stopped, or cut off.
inline constexpr std::size_t kStateBlock = kMiB;
inline constexpr auto kStateBlockWithin = std::chrono::seconds(30);

}  // namespace trireme
