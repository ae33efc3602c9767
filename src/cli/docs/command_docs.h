#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// A flag or a positional argument of a command.
struct FlagDocs {
  std::vector<std::string> names;    ///< "-w", "--workers"; of a positional argument its one name: "run"
  std::string value;                 ///< what stands for its value: "N", "TEXT"; empty = it takes none
  std::vector<std::string> choices;  ///< all values it takes; empty = any
  std::string default_value;
  std::string help;
  std::string group;  ///< the heading it stands under in the help
  bool required = false;

  bool positional() const { return names.front().front() != '-'; }
  bool number() const { return value == "N"; }
};

/// What `--help` tells about a command and those below it.
struct CommandDocs {
  std::string name;  ///< with those above it: "trireme ckpt ls"
  std::string help;
  std::string footer;
  std::vector<FlagDocs> flags;
  std::vector<CommandDocs> commands;

  std::string last_name() const { return name.substr(name.rfind(' ') + 1); }
};

/// Of `app` and all below it, without what is hidden from the help.
CommandDocs describe(const CLI::App& app);

/// `top` and all below it, each before its own subcommands.
std::vector<const CommandDocs*> all_commands(const CommandDocs& top);

}  // namespace trireme::cli
