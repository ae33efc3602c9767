#pragma once

#include <string>

#include "trireme/trainer.h"

namespace trireme {

/// Sets what was given on the command line of `trireme run` (`json`: values by the flags' names; empty = nothing): it
/// wins over what the program has chosen. Throws InvalidArgument for an option that is unknown or invalid.
void set_given_options(TrainOptions& options, const std::string& json);

}  // namespace trireme
