#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/flags/train_flags.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// Returns whether `trireme run` made this folder.
bool holds_program(const observe::RunFolder& folder);

/// Declares that a program and its own flags may end the command line of `command`, after `--`.
void declare_program(CLI::App& command, std::vector<std::string>& program);

/// Throws InvalidArgument if a flag was given that neither `trireme run` has nor `others` names; `why` says why it
/// cannot be.
void check_flags_of_run(const CLI::App& command, const std::set<std::string>& others, const std::string& why);

/// Returns the flags of `trireme run` that were given, as words for another one; without those of one launch.
std::vector<std::string> given_flags_of_run(const CLI::App& command);

/// After parsing: what follows from flags that were given. Throws InvalidArgument.
TrainFlags settle_program(CLI::App& command, TrainFlags flags);

/// Continues what `trireme run` started there. `command` has the flags of `trireme train`, now in `flags`: those that
/// were not given become the run's own. Throws InvalidArgument for one that `trireme run` does not have.
Action resume_program(CLI::App& command, const std::shared_ptr<TrainFlags>& flags, const observe::RunFolder& folder);

}  // namespace trireme::cli
