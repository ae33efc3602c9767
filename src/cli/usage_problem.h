#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// Returns what is wrong with a command line that `app` could not read, in our words: which flag or argument, what it
/// takes, the name that was probably meant, and where to read more.
std::string explain(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace trireme::cli
