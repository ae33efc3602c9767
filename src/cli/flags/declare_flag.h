#pragma once

#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/flag.h"
#include "cli/flags/numbers.h"

namespace trireme::cli {

/// Declares `flag` on `command`; after parsing its value is in `flags`, which has the default before.
template <class Flags, class Value>
CLI::Option* declare_flag(CLI::App& command, const Flag<Flags, Value>& flag, Flags& flags) {
  CLI::Option* option = nullptr;
  if constexpr (std::is_same_v<Value, bool>) {
    option = command.add_flag(flag.names, flags.*flag.member, flag.help);
  } else if constexpr (std::is_arithmetic_v<Value>) {
    option = add_number(command, flag.names, flags.*flag.member, flag.help, flag.limits);
  } else {
    option = command.add_option(flag.names, flags.*flag.member, flag.help);
  }
  if (!flag.choices.empty()) option->check(CLI::IsMember(flag.choices));
  if (flag.show_default) option->capture_default_str();
  if (!flag.group.empty()) option->group(flag.group);
  return option;
}

/// Gives `command` a flag as if a person had: its configuration has it too.
inline void give(CLI::App& command, const std::string& name, const std::string& value) {
  CLI::Option& option = *command.get_option(name);
  option.clear();
  option.add_result(value);
  option.run_callback();
}

/// Sets a flag that was not given to `value`, also as its default, so that it appears in the command's configuration.
template <class Value>
void set_unless_given(CLI::App& command, const std::string& name, Value& flag, const Value& value) {
  CLI::Option& option = *command.get_option(name);
  if (option.count() > 0) return;
  flag = value;
  option.default_str(fmt::format("{}", value));
}

}  // namespace trireme::cli
