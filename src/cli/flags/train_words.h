#pragma once

#include "cli/commands/commands.h"
#include "cli/flags/train_flags.h"

namespace trireme::cli {

/// Reads `words` as `trireme train` does, settled and checked, for commands that have it started elsewhere or later.
/// Throws InvalidArgument if it would refuse them.
TrainFlags read_train_words(const Words& words);

}  // namespace trireme::cli
