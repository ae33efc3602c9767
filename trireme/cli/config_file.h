#pragma once

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// Adds `--config FILE` to `command`: its flags as `name = value` lines (TOML). A flag on the command line wins. A key that is
/// no flag is refused (InvalidArgument out of the parse) with what was probably meant.
void add_config_flag(CLI::App& command);

}  // namespace trireme::cli
