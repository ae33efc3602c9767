#pragma once

#include <string>

#include "cli/docs/command_docs.h"

namespace trireme::cli {

/// The manual page of `top`, with all its subcommands and flags, in the man(7) macros.
std::string man_page(const CommandDocs& top);

}  // namespace trireme::cli
