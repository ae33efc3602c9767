#pragma once

#include <string>
#include <tuple>
#include <vector>

namespace trireme {

/// One flag of a program: the member of `Flags` that it sets, and what its help says. A program's flags are a tuple of
/// these, so that each is described once, for the one that reads the command line and the one that writes it.
template <class Flags, class Value>
struct Flag {
  std::string names;  ///< "--model", or with a short one "-w,--workers"
  Value Flags::*member = nullptr;
  std::string help;
  bool show_default = false;              ///< in the help
  std::vector<std::string> choices = {};  ///< the values it takes; empty = not a matter of choice
  std::string group = {};                 ///< its heading in the help; empty = the usual one

  std::string name() const { return names.substr(names.rfind(',') + 1); }  ///< "--workers"; `npos + 1` is 0
  std::string key() const { return name().substr(2); }                     ///< "workers", as in a file
};

/// Calls `visit` with each flag of a tuple of them.
template <class FlagTuple, class Visit>
void for_each_flag(const FlagTuple& flags, const Visit& visit) {
  std::apply([&](const auto&... flag) { (visit(flag), ...); }, flags);
}

}  // namespace trireme
