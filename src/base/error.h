#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {

/// Throws `E` with a formatted message: `fail<Timeout>("server {} is silent", rank)`.
template <typename E, typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws IoError with `what` and the text of the current `errno`.
[[noreturn]] void fail_errno(const std::string& what);

/// Prints the failed check and aborts; see TRIREME_CHECK.
[[noreturn]] void check_failed(const char* condition, const std::string& message, const char* file, int line);

}  // namespace trireme

/// Aborts with a message if `condition` is false: a bug in Trireme itself, not a failure of its environment. In an
/// elastic job the death of a process is a handled event; going on with broken invariants is not.
#define TRIREME_CHECK(condition, ...)                                                         \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::trireme::check_failed(#condition, ::fmt::format("" __VA_ARGS__), __FILE__, __LINE__); \
  } while (false)
