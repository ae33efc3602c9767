#pragma once

#include <optional>
#include <string>

#include "cli/train_flags.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// Trains in `existing`, the folder of a run that continues, or in a new one that the flags name; `config` becomes its
/// config.toml, once nothing is left that could be wrong with the flags. A run that continues does so from the
/// checkpoint of step `from`, if that is given. Returns the exit status. Throws InvalidArgument, IoError, Corrupt.
int train(TrainFlags flags, const std::string& config, std::optional<observe::RunFolder> existing = {},
          std::optional<Step> from = {});

}  // namespace trireme::cli
