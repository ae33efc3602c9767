#pragma once

#include <string>

#include "cli/docs/command_docs.h"

namespace trireme::cli {

/// Scripts that complete subcommands, flags and the values of flags that have a fixed set of them; anything else is a
/// file name. For share/bash-completion/completions, zsh's site-functions (as `_trireme`) and fish's completions.
std::string bash_completion(const CommandDocs& top);
std::string zsh_completion(const CommandDocs& top);
std::string fish_completion(const CommandDocs& top);

}  // namespace trireme::cli
