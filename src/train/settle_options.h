#pragma once

#include "trireme/trainer.h"

namespace trireme {

/// Fills in what a Trainer of a job that starts with `workers` was not told, and checks the rest. Throws
/// InvalidArgument that says what is wrong, or what contradicts what.
void settle_options(TrainOptions& options, std::uint32_t workers);

}  // namespace trireme
