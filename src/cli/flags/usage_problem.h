#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// Throws InvalidArgument, with the name that was probably meant, if `words` (a command line after the program's name)
/// begin with a command that `app` does not have. CLI11 would only say that one is missing.
void check_command(const CLI::App& app, std::span<const std::string> words);

/// Returns what is wrong with a command line that `app` could not read, in our words: which flag or argument, what it
/// takes, the name that was probably meant, and where to read more.
std::string explain(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace trireme::cli
