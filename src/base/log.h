#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace trireme {

// Logging is the only process-wide state here: one spdlog logger. Every layer must be able to report, even from
// destructors and callbacks without a context, and a process has one log however many objects live in it. Nothing reads
// the log back, so no decision can depend on it.

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// The environment variable that names the least level that a process of a job logs.
inline constexpr const char* kLogLevelVariable = "TRIREME_LOG_LEVEL";

/// Parses "debug", "info", "warning" or "error". Throws InvalidArgument that lists them; `name` is the flag or
/// variable.
LogLevel parse_log_level(const std::string& name, const std::string& text);

struct LogOptions {
  std::string role = {};            ///< the process that logs: "worker 1"; empty = leave it out
  std::filesystem::path file = {};  ///< appended to; its folders are created; empty = no file
  LogLevel level = LogLevel::kInfo;
  bool to_stderr = true;
};

/// Sends all later lines to where `options` say instead of where they went before. Before the first call, warnings and
/// errors go to standard error. Throws IoError if the file cannot be opened (nothing changes then).
void set_up_logging(const LogOptions& options);

/// One `key=value` of a log line. Borrows its texts: construct it only in the call that uses it.
struct Field {
  using Value = std::variant<bool, std::int64_t, std::uint64_t, float, double, std::string_view>;

  Field(std::string_view field_key, std::string_view text) : key(field_key), value(text) {}

  template <typename T>
  requires std::is_arithmetic_v<T> Field(std::string_view field_key, T number)
      : key(field_key), value(widest(number)) {}

  std::string_view key;
  Value value;

 private:
  template <typename T>
  static Value widest(T number) {
    if constexpr (std::is_same_v<T, bool> || std::is_floating_point_v<T>) {
      return number;
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<std::int64_t>(number);
    } else {
      return static_cast<std::uint64_t>(number);
    }
  }
};

using Fields = std::initializer_list<Field>;

/// The kind of event, in snake_case: `view_formed`. Messages are for people and may be reworded; keys are stable, for
/// programs and tests that read the log. docs/events.md lists them all (tools/check_events). Made from a literal only;
/// one that is not snake_case does not compile.
class EventKey {
 public:
  consteval EventKey(const char* text) : text_(text) {  // NOLINT(google-explicit-constructor): a literal is a key
    bool word = false;  // the previous character is a letter or digit: no underscore at the start, at the end, or twice
                        // in a row
    for (const char c : text_) {
      if (c == '_' ? !word : !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))) throw "an event key is snake_case";
      word = c != '_';
    }
    if (!word) throw "an event key is snake_case";
  }

  constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

/// Writes one line: `2026-03-01T09:15:02.123Z info    [worker 1] joined the job event=joined view=1 servers=2`. Times
/// are UTC. The message is fixed text; what varies is in the fields, so that people and programs can search for it.
///
/// Thread-safe; lines never mix. Never throws. The line has reached the kernel when the call returns, so a killed
/// process loses none.
void log(LogLevel level, EventKey event, std::string_view message, Fields fields = {});

inline void log_debug(EventKey event, std::string_view message, Fields fields = {}) {
  log(LogLevel::kDebug, event, message, fields);
}
inline void log_info(EventKey event, std::string_view message, Fields fields = {}) {
  log(LogLevel::kInfo, event, message, fields);
}
inline void log_warn(EventKey event, std::string_view message, Fields fields = {}) {
  log(LogLevel::kWarn, event, message, fields);
}
inline void log_error(EventKey event, std::string_view message, Fields fields = {}) {
  log(LogLevel::kError, event, message, fields);
}

/// Returns whether `line`, as `log` writes it, is of level info or debug: of no concern to a person who only watches.
bool is_routine(std::string_view line);

/// Returns message, key and fields as they appear in the log, always on one line: control characters are escaped (`\n`,
/// `\x1b`); a value that is empty or contains a space, `=` or a quote is quoted.
std::string format_event(EventKey event, std::string_view message, Fields fields);

}  // namespace trireme
