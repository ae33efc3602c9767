#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace trireme::cli {

/// A flag or a positional argument of a command.
struct FlagDocs {
  std::vector<std::string> names;    ///< "-w", "--workers"; for a positional argument its only name: "run"
  std::string value;                 ///< placeholder of its value: "N", "TEXT"; empty = it takes none
  std::vector<std::string> choices;  ///< all values it takes; empty = any
  std::string default_value;
  std::string help;
  std::string group;  ///< the heading it stands under in the help
  bool required = false;

  bool positional() const { return names.front().front() != '-'; }
  bool number() const { return value == "N"; }
};

/// What `--help` says about a command and its subcommands.
struct CommandDocs {
  std::string name;  ///< with its parents: "trireme ckpt ls"
  std::string help;
  std::string footer;
  std::vector<FlagDocs> flags;
  std::vector<CommandDocs> commands;

  std::string last_name() const { return name.substr(name.rfind(' ') + 1); }
};

/// Describes `app` and all its subcommands, without those hidden from the help.
CommandDocs describe(const CLI::App& app);

/// Returns `top` and all commands below it, each before its own subcommands.
std::vector<const CommandDocs*> all_commands(const CommandDocs& top);

}  // namespace trireme::cli
