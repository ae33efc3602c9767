#pragma once

#include "plan/schedule/schedule.h"

namespace trireme::plan {

// Schedules whose backward is split: the stage before waits only for the gradient of the input; that of the weights
// fills what would be a bubble (Qi et al. 2024, https://arxiv.org/abs/2401.10241). Both aim at equal times of forward,
// input and weight gradient; other times leave them sound, with a larger bubble. For `make_schedule`, which checks the
// sizes.

/// ZB-H1: holds as many activations as 1F1B, has a third of its bubble. Rank r delays weight gradients by r
/// micro-batches.
Schedule zb_h1(std::uint32_t ranks, std::uint32_t micro_batches);

/// ZB-V: rank r holds stages r and 2p-1-r, so the last stage is on the first rank. From 2p-1 micro-batches on, no rank
/// is idle between its first and its last action.
Schedule zb_v(std::uint32_t ranks, std::uint32_t micro_batches);

}  // namespace trireme::plan
