#pragma once

#include <string>

#include "cli/flags/train_flags.h"

namespace trireme::cli {

/// Checks --init and --init-prefix as far as that is possible without LibTorch. --init becomes an absolute path, of a
/// run's folder that of its newest checkpoint, so that workers find the same model whenever they look. Returns what to
/// tell about it; empty if --init is not given. Throws InvalidArgument.
std::string settle_init(TrainFlags& flags);

}  // namespace trireme::cli
