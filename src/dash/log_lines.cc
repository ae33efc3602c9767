#include "dash/log_lines.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <utility>

namespace trireme::dash {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;         // bytes read at once
constexpr std::size_t kLongestLine = std::size_t{16} << 20;  // a longer one is taken apart

/// "worker-1.log": "worker 1".
std::string process_of(const std::filesystem::path& path) {
  std::string name = path.stem().string();
  const auto dash = name.rfind('-');
  if (dash != name.npos) name[dash] = ' ';
  return name;
}

std::optional<int> digits(std::string_view text, std::size_t at, std::size_t count) {
  int value = 0;
  if (at + count > text.size()) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + count, value);
  if (error != std::errc{} || end != text.data() + at + count) return std::nullopt;
  return value;
}

/// Takes a value off the front of `text`: bare, or quoted with escapes.
std::string take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const auto end = std::min(text.find(' '), text.size());
    value = text.substr(0, end);
    text.remove_prefix(end);
    return value;
  }
  std::size_t at = 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) {
      ++at;
      value += text[at] == 'n' ? '\n' : text[at] == 't' ? '\t' : text[at];
    } else {
      value += text[at];
    }
  }
  text.remove_prefix(std::min(text.size(), at + 1));
  return value;
}

}  // namespace

std::string LogEvent::text(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

double LogEvent::number(const std::string& name) const { return std::strtod(text(name).c_str(), nullptr); }

std::optional<double> parse_time(std::string_view line) {
  constexpr std::string_view kForm = "2026-03-01T09:15:02.123Z";
  if (line.size() < kForm.size()) return std::nullopt;
  for (const std::size_t at : {4UL, 7UL, 10UL, 13UL, 16UL, 19UL, 23UL}) {
    if (line[at] != kForm[at]) return std::nullopt;
  }
  const auto year = digits(line, 0, 4);
  const auto month = digits(line, 5, 2);
  const auto day = digits(line, 8, 2);
  const auto hour = digits(line, 11, 2);
  const auto minute = digits(line, 14, 2);
  const auto second = digits(line, 17, 2);
  const auto millis = digits(line, 20, 3);
  if (!year || !month || !day || !hour || !minute || !second || !millis) return std::nullopt;
  std::tm time{};
  time.tm_year = *year - 1900;
  time.tm_mon = *month - 1;
  time.tm_mday = *day;
  time.tm_hour = *hour;
  time.tm_min = *minute;
  time.tm_sec = *second;
  return static_cast<double>(::timegm(&time)) + *millis * 1e-3;
}

std::optional<LogEvent> parse_event(const LogLine& line) {
  if (line.level.empty()) return std::nullopt;
  const auto key = line.text.find(" event=");
  if (key == std::string::npos) return std::nullopt;
  LogEvent event{.time = line.time, .process = line.process, .level = line.level};
  std::string_view rest(line.text);
  std::string_view head = rest.substr(0, key);
  // The time, the level, and in brackets the process.
  head.remove_prefix(std::min(head.size(), std::size_t{25}));
  if (const auto bracket = head.find("] "); bracket != head.npos) {
    head.remove_prefix(bracket + 2);
  } else {
    head.remove_prefix(std::min(head.size(), std::size_t{8}));
  }
  event.message = head;
  rest.remove_prefix(key + 7);
  event.key = take_value(rest);
  while (!rest.empty()) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto equals = rest.find('=');
    if (equals == rest.npos) break;
    const std::string name(rest.substr(0, equals));
    rest.remove_prefix(equals + 1);
    event.fields[name] = take_value(rest);
  }
  return event;
}

std::vector<LogLine> LogLines::next() {
  std::vector<LogLine> lines;
  std::error_code none;
  for (std::filesystem::directory_iterator entry(folder_, none), end; !none && entry != end; entry.increment(none)) {
    if (entry->path().extension() != ".log") continue;
    auto [known, fresh] = files_.try_emplace(entry->path());
    if (fresh) known->second.process = process_of(entry->path());
  }
  for (auto& [path, file] : files_) read_more(path, file, lines);
  begun_ = true;
  std::ranges::stable_sort(lines, {}, &LogLine::time);
  return lines;
}

void LogLines::read_more(const std::filesystem::path& path, File& file, std::vector<LogLine>& lines) const {
  std::error_code gone;
  const std::uint64_t size = std::filesystem::file_size(path, gone);
  if (gone || size == file.read) return;
  if (size < file.read) file = {.process = file.process};  // another run began in the folder
  if (!begun_ && size > most_) {
    file.read = size - most_ - 1;  // if a line ends there the next one is whole
    file.cut = true;
  }
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(file.read));
  std::string text;  // read, but not in lines yet
  while (file.read + text.size() < size) {
    const std::size_t before = text.size();
    text.resize(before + std::min<std::uint64_t>(size - file.read - before, kBlock));
    in.read(text.data() + before, static_cast<std::streamsize>(text.size() - before));
    text.resize(before + static_cast<std::size_t>(in.gcount()));
    if (text.size() == before) return;  // it is shorter than a moment ago
    const auto whole = text.rfind('\n');
    if (whole == text.npos && text.size() < kLongestLine) continue;
    const std::size_t taken = whole == text.npos ? text.size() : whole + 1;
    add_lines(std::string_view(text).substr(0, taken), file, lines);
    file.read += taken;
    text.erase(0, taken);
  }
}

void LogLines::add_lines(std::string_view block, File& file, std::vector<LogLine>& lines) const {
  while (!block.empty()) {
    const std::string_view text = block.substr(0, block.find('\n'));
    block.remove_prefix(std::min(block.size(), text.size() + 1));
    if (std::exchange(file.cut, false)) continue;
    if (events_only_ && text.find(" event=") == text.npos) continue;
    LogLine line{.process = file.process, .text = std::string(text)};
    if (const auto time = parse_time(text)) {
      file.time = *time;
      const std::string_view level = text.size() > 25 ? text.substr(25, 7) : "";
      line.level = level.substr(0, level.find(' '));
    }
    line.time = file.time;
    lines.push_back(std::move(line));
  }
}

}  // namespace trireme::dash
