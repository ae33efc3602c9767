#pragma once

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"

namespace trireme::cli {

/// Adds `trireme data split FILE…` to `data`: writes NAME.train.EXT and NAME.test.EXT.
void declare_data_split(CLI::App& data, Action& action);

}  // namespace trireme::cli
