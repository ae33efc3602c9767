#pragma once

#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/train_flags.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// Returns whether `trireme run` made this folder.
bool holds_program(const observe::RunFolder& folder);

/// Continues what `trireme run` started there. `command` has the flags of `trireme train`, now in `flags`: those that
/// were not given become the run's own. Throws InvalidArgument for one that `trireme run` does not have.
Action resume_program(CLI::App& command, const std::shared_ptr<TrainFlags>& flags, const observe::RunFolder& folder);

}  // namespace trireme::cli
