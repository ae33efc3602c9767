#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.h"
#include "base/flag.h"

namespace trireme::cli {

/// Returns what the limits allow: "a whole number from 1 to 1024", "a number above 0".
std::string describe(const Limits& limits, bool whole);

/// Throws the InvalidArgument that `parse_number` promises.
[[noreturn]] void refuse_number(const std::string& flag, const std::string& text, const std::string& allowed);

/// Returns the number that `text` is. Throws InvalidArgument that names the flag, what was given and what is allowed:
/// if it is no number, does not fit, or is not within the limits.
template <class Number>
Number parse_number(const std::string& flag, const std::string& text, const Limits& limits) {
  constexpr bool kWhole = std::is_integral_v<Number>;
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  const bool number = problem == std::errc() && stopped == end;
  if (number && limits.allow(static_cast<double>(value))) return value;
  if (kWhole && problem == std::errc::result_out_of_range && text.front() != '-') {
    refuse_number(flag, text, fmt::format("at most {}", std::numeric_limits<Number>::max()));
  }
  refuse_number(flag, text, describe(limits, kWhole));
}

template <class Value>
struct NumberIn {
  using Type = Value;
};
template <class Value>
struct NumberIn<std::optional<Value>> {
  using Type = Value;
};

/// Declares an option that takes a number within `limits` and puts it into `value`, which may be an optional one.
template <class Value>
CLI::Option* add_number(CLI::App& command, const std::string& names, Value& value, const std::string& help,
                        const Limits& limits = {}) {
  using Number = typename NumberIn<Value>::Type;
  const auto read = [&value, limits, name = names.substr(names.rfind(',') + 1)](const CLI::results_t& given) {
    value = parse_number<Number>(name, given.back(), limits);
    return true;
  };
  const auto shown = [&value]() -> std::string {
    if constexpr (std::is_same_v<Value, Number>) {
      return fmt::format("{}", value);
    } else {
      return value ? fmt::format("{}", *value) : "";
    }
  };
  return command.add_option(names, read, help, /*defaulted=*/false, shown)
      ->type_name(std::is_floating_point_v<Number> ? "FLOAT"
                  : std::is_signed_v<Number>       ? "INT"
                                                   : "UINT");
}

}  // namespace trireme::cli
