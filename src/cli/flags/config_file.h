#pragma once

#include <set>
#include <string>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// Adds `--config FILE` to `command`: its flags as `name = value` lines (TOML). The path is in `path` after
/// parsing; empty if it was not given.
void add_config_flag(CLI::App& command, std::string& path);

/// Takes over the flags in the file at `path`; a flag on the command line wins. For the command's callback, before the
/// flags are used: CLI11 itself reads such files for the main command only. Throws IoError if the file cannot be read,
/// InvalidArgument for a key that is no flag, with what was probably meant. Keys in `except` are left out.
void apply_config_file(CLI::App& command, const std::string& path, const std::set<std::string>& except = {});

/// Returns the file that gives `command` the flags it has now, with those that were not given.
std::string config_text(const CLI::App& command);

/// Returns the file's value of one flag; empty if it has none.
std::string config_value(const std::string& path, const std::string& name);

}  // namespace trireme::cli
