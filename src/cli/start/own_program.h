#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/start/training.h"

namespace trireme::cli {

/// A run that was trained by a program of the user's (train_main) needs that program again, for its models: returns
/// what starts it with `words`, in place of this process. Null if `self` can do without: the run is one of `trireme
/// train`, or `self` is such a program. Throws InvalidArgument if the program is gone, Corrupt.
Action hand_over(const std::filesystem::path& run, const WorkerProgram& self, const std::vector<std::string>& words);

/// Becomes the program `words`, which inherits standard input and output. Throws IoError if it cannot be started;
/// does not return otherwise.
[[noreturn]] void become(const std::vector<std::string>& words);

}  // namespace trireme::cli
