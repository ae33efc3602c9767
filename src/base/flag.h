#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

namespace trireme {

/// The numbers that a flag takes.
struct Limits {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
  bool above = false;  ///< `least` itself is not allowed
  bool below = false;  ///< neither is `most`

  /// Infinity and nan never are.
  bool allow(double value) const {
    return std::isfinite(value) && (above ? value > least : value >= least) && (below ? value < most : value <= most);
  }
};

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
  Limits limits = {};                     ///< of a number

  std::string name() const { return names.substr(names.rfind(',') + 1); }  ///< "--workers"; `npos + 1` is 0
  std::string key() const { return name().substr(2); }                     ///< "workers", as in a file
};

/// Calls `visit` with each flag of a tuple of them.
template <class FlagTuple, class Visit>
void for_each_flag(const FlagTuple& flags, const Visit& visit) {
  std::apply([&](const auto&... flag) { (visit(flag), ...); }, flags);
}

/// Returns the command line that sets what differs from the defaults: {"--workers", "4", "--standby"}.
template <class FlagTuple, class Flags>
std::vector<std::string> to_arguments(const FlagTuple& tuple, const Flags& flags) {
  const Flags defaults{};
  std::vector<std::string> arguments;
  for_each_flag(tuple, [&](const auto& flag) {
    const auto& value = flags.*flag.member;
    if (value == defaults.*flag.member) return;
    arguments.push_back(flag.name());
    if constexpr (!std::is_same_v<decltype(value), const bool&>) arguments.push_back(fmt::format("{}", value));
  });
  return arguments;
}

}  // namespace trireme
