#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace trireme {

/// Root of every failure that a peer, a disk or a user can cause. The message says who, what, and what to do next.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A process we talk to is gone: its connection ended or it was declared dead.
class PeerLost : public Error {
 public:
  using Error::Error;
};

/// A peer is silent: a deadline passed.
class Timeout : public Error {
 public:
  using Error::Error;
};

/// A message belongs to an older (or newer) membership of the job than ours.
class StaleView : public Error {
 public:
  using Error::Error;
};

/// The caller, a flag or a peer's request asks for something that cannot be.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Bytes are not what they should be: a file, a frame, a checksum.
class Corrupt : public Error {
 public:
  using Error::Error;
};

/// A peer does not know the job's secret, or speaks another version of the protocol.
class Unauthenticated : public Error {
 public:
  using Error::Error;
};

/// The operating system refused a file, a socket or a process.
class IoError : public Error {
 public:
  using Error::Error;
};

/// Throws `E` with a formatted message: `fail<Timeout>("server {} is silent", rank)`.
template <typename E, typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Throws IoError with `what` and the text of the current `errno`.
[[noreturn]] void fail_errno(const std::string& what);

/// Prints and aborts; see TRIREME_CHECK.
[[noreturn]] void check_failed(const char* condition, const std::string& message, const char* file, int line);

}  // namespace trireme

/// A bug in Trireme itself, not a failure of its surroundings: say so and abort. In an elastic job the death of a
/// process is a handled event; going on with broken invariants is not.
#define TRIREME_CHECK(condition, ...)                                                         \
  do {                                                                                        \
    if (!(condition)) [[unlikely]]                                                            \
      ::trireme::check_failed(#condition, ::fmt::format("" __VA_ARGS__), __FILE__, __LINE__); \
  } while (false)
