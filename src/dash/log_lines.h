#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::dash {

/// One line of a log, whoever wrote it: the library, or a program that prints.
struct LogLine {
  double time = 0;      ///< seconds since 1970; of a line that says none, that of the line before
  std::string process;  ///< "worker 1", after the file's name
  std::string level;    ///< "debug", "info", "warning", "error"; empty = a program printed it
  std::string text;     ///< all of it
  bool operator==(const LogLine&) const = default;
};

/// A line that the library wrote: see base/log.h.
struct LogEvent {
  double time = 0;
  std::string process;
  std::string level;
  std::string message;
  std::string key;  ///< "view_formed"
  std::map<std::string, std::string> fields;

  /// The field of this name; empty, or 0, if there is none.
  std::string text(const std::string& name) const;
  double number(const std::string& name) const;
};

/// Returns what `line` tells; nullopt if it is no event.
std::optional<LogEvent> parse_event(const LogLine& line);

/// Returns the time that a line of a log begins with (2026-03-01T09:15:02.123Z), as seconds since 1970.
std::optional<double> parse_time(std::string_view line);

/// Enough for the last thousands of lines of a log: see LogLines.
inline constexpr std::uint64_t kRecentBytes = std::uint64_t{64} << 20;

/// Follows the logs of all processes of a run, as they grow and as new ones appear. Not thread-safe.
class LogLines {
 public:
  /// `events_only`: leaves out lines that are no events, which is much faster for programs that print a lot. `most`: of
  /// what is there at the first call, only so many bytes at the end of each log are read; the first line is whole.
  explicit LogLines(std::filesystem::path folder, bool events_only = false, std::uint64_t most = ~std::uint64_t{0})
      : folder_(std::move(folder)), events_only_(events_only), most_(most) {}

  /// Returns the complete lines that were added since the last call, in the order of their times; lines of one process
  /// stay in order.
  std::vector<LogLine> next();

 private:
  struct File {
    std::string process;
    std::uint64_t read = 0;
    double time = 0;   // of its last line
    bool cut = false;  // it is read from within a line, whose rest is left out
  };

  void read_more(const std::filesystem::path& path, File& file, std::vector<LogLine>& lines) const;
  void add_lines(std::string_view text, File& file, std::vector<LogLine>& lines) const;

  std::filesystem::path folder_;
  bool events_only_;
  std::uint64_t most_;
  bool begun_ = false;
  std::map<std::filesystem::path, File> files_;
};

}  // namespace trireme::dash
