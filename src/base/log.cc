#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/suggest.h"

namespace trireme {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Appends `text`, escaping every character that could break the line or control a terminal.
void append_escaped(std::string& line, std::string_view text, bool quoted) {
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\r') {
      line += "\\r";
    } else if (c == '\t') {
      line += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      line += fmt::format("\\x{:02x}", code);
    } else if (quoted && (c == '"' || c == '\\')) {
      line += '\\';
      line += c;
    } else {
      line += c;
    }
  }
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=' || c == '\\' || c == 0x7F) return true;
  }
  return false;
}

void append_value(std::string& line, std::string_view text) {
  const bool quoted = needs_quotes(text);
  if (quoted) line += '"';
  append_escaped(line, text, quoted);
  if (quoted) line += '"';
}

std::string line_pattern(const std::string& role) {
  std::string clean;
  append_escaped(clean, role, false);
  std::string pattern = "%Y-%m-%dT%H:%M:%S.%eZ %-7l ";
  if (clean.empty()) return pattern + "%v";
  pattern += '[';
  for (const char c : clean) {
    if (c == '%') pattern += '%';  // the pattern's own escape
    pattern += c;
  }
  return pattern + "] %v";
}

/// Writes each line with one system call and no buffer: a process that is killed loses no line, and two processes that
/// share a file do not mix their lines.
class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const std::filesystem::path& path) : path_(path) {
    std::error_code ignored;  // if the folder is still missing, opening the file fails and says so
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), ignored);
    file_ = FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!file_)
      fail_errno(fmt::format("cannot open the log file {} (choose another folder with --out)", path.string()));
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view rest(line.data(), line.size());
    while (!rest.empty()) {
      const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      // spdlog catches this and reports it on standard error, at most once a second.
      if (written < 0) throw spdlog::spdlog_ex("cannot write " + path_.string(), errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void flush_() override {}

  const std::filesystem::path path_;
  FileDescriptor file_;
};

std::shared_ptr<spdlog::logger> make_logger(const LogOptions& options) {
  std::vector<spdlog::sink_ptr> sinks;
  if (!options.file.empty()) sinks.push_back(std::make_shared<FileSink>(options.file));
  if (options.to_stderr) sinks.push_back(std::make_shared<spdlog::sinks::stderr_sink_mt>());  // flushes each line
  auto logger = std::make_shared<spdlog::logger>("trireme", sinks.begin(), sinks.end());
  logger->set_formatter(
      std::make_unique<spdlog::pattern_formatter>(line_pattern(options.role), spdlog::pattern_time_type::utc));
  logger->set_level(spdlog_level(options.level));
  return logger;
}

/// The logger in use. Our own holder instead of spdlog's registry: callers keep a logger alive by their copy, so it can
/// be replaced at any time while other threads log.
class Current {
 public:
  std::shared_ptr<spdlog::logger> get() {
    const MutexLock lock(mutex_);
    return logger_;
  }

  void set(std::shared_ptr<spdlog::logger> logger) {
    const MutexLock lock(mutex_);
    logger_.swap(logger);
  }

 private:
  Mutex mutex_;
  std::shared_ptr<spdlog::logger> logger_ TRIREME_GUARDED_BY(mutex_) = make_logger({.level = LogLevel::kWarn});
};

Current& current() {
  static Current& current = *new Current;  // never destroyed: destructors of other statics may still log
  return current;
}

}  // namespace

void set_up_logging(const LogOptions& options) { current().set(make_logger(options)); }

void log(LogLevel level, EventKey event, std::string_view message, Fields fields) {
  try {
    const std::shared_ptr<spdlog::logger> logger = current().get();
    if (!logger->should_log(spdlog_level(level))) return;
    const std::string line = format_event(event, message, fields);
    logger->log(spdlog_level(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (const std::exception& error) {  // out of memory: better to lose the line than the caller
    std::fputs(error.what(), stderr);
  }
}

LogLevel parse_log_level(const std::string& name, const std::string& text) {
  static const std::vector<std::string> names{"debug", "info", "warning", "error"};  // as in LogLevel
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) {
    fail<InvalidArgument>("{} {}{}: use {}", name, text.empty() ? "''" : text, did_you_mean(text, names),
                          fmt::join(names, ", "));
  }
  return static_cast<LogLevel>(found - names.begin());
}

bool is_routine(std::string_view line) {
  constexpr std::string_view kTime = "2026-03-01T09:15:02.123Z ";
  if (line.size() < kTime.size() || line[10] != 'T' || line[kTime.size() - 2] != 'Z') return false;
  line.remove_prefix(kTime.size());
  return line.starts_with("info ") || line.starts_with("debug ");
}

std::string format_event(EventKey event, std::string_view message, Fields fields) {
  std::string line;
  append_escaped(line, message, false);
  line += " event=";
  line += event.text();
  for (const Field& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    std::visit(
        [&]<typename T>(const T& value) {
          if constexpr (std::is_same_v<T, std::string_view>) {
            append_value(line, value);
          } else {
            fmt::format_to(std::back_inserter(line), "{}", value);
          }
        },
        field.value);
  }
  return line;
}

}  // namespace trireme
