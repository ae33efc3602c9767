#pragma once

#include "trireme/trainer.h"

#include "cli/flags/train_flags.h"

namespace trireme::cli {

/// Returns the options of a training on the worker of that rank. Throws InvalidArgument if a flag is invalid, or there
/// is no such device.
TrainOptions to_options(const TrainFlags& flags, Rank rank);

}  // namespace trireme::cli
