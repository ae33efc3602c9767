#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands/commands.h"
#include "cli/flags/train_flags.h"

namespace trireme::cli {

// The commands of `trireme data` that look into data of any kind. Each prints to standard output and returns the exit
// status.

struct DataInspectOptions {
  std::vector<std::string> data = {};  ///< as --data of `trireme train`
  TrainFlags flags = {};               ///< how to read it: --target, --types, ...
  std::uint64_t samples = 5;           ///< of show
  bool json = false;
};

int data_ls(const DataInspectOptions& options);     ///< what is in it
int data_show(const DataInspectOptions& options);   ///< the first samples
int data_check(const DataInspectOptions& options);  ///< damaged samples; 1 if there are any
int data_stats(const DataInspectOptions& options);  ///< numbers about each field

/// Adds the commands to `data`.
void declare_data_inspect(CLI::App& data, Action& action);

/// Returns the options by which `options.flags` wants data to be opened, and checks them. Throws InvalidArgument.
data::OpenOptions inspect_options(const DataInspectOptions& options);

/// Declares what the commands have in common: the data, and the flags that tell how to read it.
void declare_data_and_flags(CLI::App& command, DataInspectOptions& options);

}  // namespace trireme::cli
