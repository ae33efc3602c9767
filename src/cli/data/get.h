#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"

namespace trireme::cli {

struct DataGetOptions {
  std::string name = {};
  std::string out = {};  ///< a folder; empty = data/NAME
};

/// `trireme data get NAME`: fetches a dataset by a package manager, converts it to what our sources read, and says
/// where it is from and under which licence. Returns the exit status.
int data_get(const DataGetOptions& options);

/// Adds the command to `data`.
void declare_data_get(CLI::App& data, Action& action);

}  // namespace trireme::cli
