#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace trireme {

/// A line of a log, read back: see base/log.h.
struct LoggedEvent {
  std::string key;
  std::map<std::string, std::string> fields;  ///< as texts, without quotes

  /// A field that must be there, as a number.
  std::uint64_t number(const std::string& field) const { return std::stoull(fields.at(field)); }
};

namespace internal {

/// Takes a field's value off the front of `rest`, and undoes what the log did to keep it in one word.
inline std::string take_value(std::string_view& rest) {
  const bool quoted = rest.starts_with('"');
  if (quoted) rest.remove_prefix(1);
  std::string value;
  while (!rest.empty() && rest.front() != (quoted ? '"' : ' ')) {
    char c = rest.front();
    rest.remove_prefix(1);
    if (quoted && c == '\\' && !rest.empty()) {
      const char kind = rest.front();
      rest.remove_prefix(1);
      c = kind == 'n' ? '\n' : kind == 'r' ? '\r' : kind == 't' ? '\t' : kind;
      if (kind == 'x') {
        c = static_cast<char>(std::stoi(std::string(rest.substr(0, 2)), nullptr, 16));
        rest.remove_prefix(2);
      }
    }
    value += c;
  }
  if (quoted && !rest.empty()) rest.remove_prefix(1);
  return value;
}

}  // namespace internal

/// The events of a log, in its order. Lines of other kinds are passed over: a process's log also holds what it printed.
inline std::vector<LoggedEvent> events_in(const std::string& log) {
  static const std::string kMark = " event=";
  std::vector<LoggedEvent> events;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t mark = line.find(kMark);
    if (mark == std::string::npos) continue;
    std::string_view rest = std::string_view(line).substr(mark + kMark.size());
    LoggedEvent event{.key = internal::take_value(rest), .fields = {}};
    while (rest.starts_with(' ')) {
      rest.remove_prefix(1);
      const std::size_t equals = rest.find('=');
      if (equals == std::string_view::npos) break;
      const std::string field(rest.substr(0, equals));
      rest.remove_prefix(equals + 1);
      event.fields[field] = internal::take_value(rest);
    }
    events.push_back(std::move(event));
  }
  return events;
}

/// What is wanted of one field: `{"view", 3}`, `{"member", "server 0"}`, `{"reason", HasSubstr("No space left")}`.
struct FieldIs {
  FieldIs(std::string field_name, ::testing::Matcher<const std::string&> wanted)
      : name(std::move(field_name)), value(std::move(wanted)) {}
  FieldIs(std::string field_name, std::integral auto number)
      : name(std::move(field_name)), value(fmt::format("{}", number)) {}  // as the log shows it, also true and false

  std::string name;
  ::testing::Matcher<const std::string&> value;
};

/// The kind of event that a test waits for or looks at. Fields that are not named may have any value.
struct WantedEvent {
  WantedEvent(const char* wanted_key, std::vector<FieldIs> wanted_fields = {})
      : key(wanted_key), fields(std::move(wanted_fields)) {}

  bool matches(const LoggedEvent& event) const {
    return event.key == key && std::ranges::all_of(fields, [&](const FieldIs& field) {
             const auto found = event.fields.find(field.name);
             return found != event.fields.end() && field.value.Matches(found->second);
           });
  }

  std::string key;
  std::vector<FieldIs> fields;
};

inline std::ostream& operator<<(std::ostream& out, const WantedEvent& wanted) {
  out << "event=" << wanted.key;
  for (const FieldIs& field : wanted.fields) {
    out << ", " << field.name << ' ';
    field.value.DescribeTo(&out);
  }
  return out;
}

/// How often `wanted` happened, as `log` tells it.
inline std::size_t count_events(const std::string& log, const WantedEvent& wanted) {
  const auto events = events_in(log);
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [&](const LoggedEvent& event) { return wanted.matches(event); }));
}

/// The first time that `wanted` happened; nullopt if it did not.
inline std::optional<LoggedEvent> first_event(const std::string& log, const WantedEvent& wanted) {
  for (LoggedEvent& event : events_in(log)) {
    if (wanted.matches(event)) return std::move(event);
  }
  return std::nullopt;
}

inline bool has_event(const std::string& log, const WantedEvent& wanted) {
  return first_event(log, wanted).has_value();
}

/// `EXPECT_THAT(log, HasEvent("member_lost", {{"member", "server 0"}}))`: that happened at least once.
MATCHER_P(HasEventLike, wanted, (std::ostringstream() << (negation ? "has no " : "has ") << wanted).str()) {
  return has_event(arg, wanted);
}
inline auto HasEvent(const char* key, std::vector<FieldIs> fields = {}) {
  return HasEventLike(WantedEvent(key, std::move(fields)));
}

}  // namespace trireme
