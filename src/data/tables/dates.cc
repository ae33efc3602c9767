#include "data/tables/dates.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numbers>

namespace trireme::data {
namespace {

constexpr std::size_t kIso = 0;
constexpr std::size_t kSlashed = 1;
constexpr std::size_t kMonthFirst = 2;
constexpr std::size_t kDayFirst = 3;
constexpr std::size_t kDotted = 4;
constexpr std::size_t kClock = 5;
constexpr std::size_t kCompact = 6;
constexpr std::size_t kMonthToMinute = 7;
constexpr std::size_t kSeconds = 8;
constexpr std::size_t kMilliseconds = 9;

constexpr double kDaySeconds = 86400;

/// Takes a date apart from the front. Once something did not fit, everything else fails too.
class DateText {
 public:
  explicit DateText(std::string_view text) : left_(text) {}

  /// Between `least` and `most` digits.
  int number(std::size_t least, std::size_t most) {
    std::size_t digits = 0;
    int value = 0;
    while (digits < most && digits < left_.size() && left_[digits] >= '0' && left_[digits] <= '9') {
      value = value * 10 + (left_[digits++] - '0');
    }
    fits_ = fits_ && digits >= least;
    left_.remove_prefix(digits);
    return value;
  }

  void expect(char wanted) {
    fits_ = fits_ && left_.starts_with(wanted);
    if (fits_) left_.remove_prefix(1);
  }

  bool take(char wanted) {
    if (!left_.starts_with(wanted)) return false;
    left_.remove_prefix(1);
    return true;
  }

  std::string_view left() const { return left_; }
  bool fits() const { return fits_; }
  bool done() const { return fits_ && left_.empty(); }

 private:
  std::string_view left_;
  bool fits_ = true;
};

struct Clock {
  int hour = 0;
  int minute = 0;
  double second = 0;
  double zone = 0;  ///< seconds east of UTC

  bool exists() const { return hour <= 23 && minute <= 59 && second < 61; }
  double seconds() const { return hour * 3600.0 + minute * 60.0 + second - zone; }
};

/// `hh:mm`, `hh:mm:ss`, `hh:mm:ss.fff`, with Z or a zone behind it.
Clock read_clock(DateText& text) {
  Clock clock;
  clock.hour = text.number(1, 2);
  text.expect(':');
  clock.minute = text.number(2, 2);
  if (text.take(':')) {
    clock.second = text.number(2, 2);
    if (text.take('.')) {
      const std::size_t before = text.left().size();
      const double fraction = text.number(1, 9);
      clock.second += fraction / std::pow(10.0, static_cast<double>(before - text.left().size()));
    }
  }
  if (text.take('Z')) return clock;
  const bool west = text.left().starts_with('-');
  if (west || text.left().starts_with('+')) {
    text.expect(west ? '-' : '+');
    const int hours = text.number(2, 2);
    text.take(':');
    const int minutes = text.left().empty() ? 0 : text.number(2, 2);
    clock.zone = (west ? -1 : 1) * (hours * 3600.0 + minutes * 60.0);
  }
  return clock;
}

double fraction(double value) { return value - std::floor(value); }

/// Of days since 2000-01-01 (a Saturday).
Date with_year(double days, bool has_time) {
  using namespace std::chrono;
  constexpr sys_days kEpoch = year{2000} / January / 1;
  const sys_days day = kEpoch + std::chrono::days(static_cast<int>(std::floor(days)));
  const year this_year = year_month_day(day).year();
  const double in_year = static_cast<double>((day - sys_days(this_year / January / 1)).count()) + fraction(days);
  return {.days = days,
          .year_part = in_year / (this_year.is_leap() ? 366 : 365),
          .week_part = fraction((days + 5) / 7),  // Monday is 0
          .day_part = fraction(days),
          .has_time = has_time};
}

std::optional<Date> from_civil(int year, int month, int day, const std::optional<Clock>& clock) {
  using namespace std::chrono;
  const year_month_day date(std::chrono::year{year}, std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  if (!date.ok() || year < 1800 || year > 2200 || (clock && !clock->exists())) return std::nullopt;
  constexpr sys_days kEpoch = std::chrono::year{2000} / January / 1;
  const double days = static_cast<double>((sys_days(date) - kEpoch).count());
  return with_year(days + (clock ? clock->seconds() / kDaySeconds : 0), clock.has_value());
}

/// Behind a date: nothing, or a time behind `T` or a space.
std::optional<Date> finish(DateText& text, int year, int month, int day) {
  if (text.done()) return from_civil(year, month, day, std::nullopt);
  if (!text.fits() || !(text.take('T') || text.take(' '))) return std::nullopt;
  const Clock clock = read_clock(text);
  return text.done() ? from_civil(year, month, day, clock) : std::nullopt;
}

std::optional<Date> parse_separated(std::string_view written, char separator, std::size_t format) {
  DateText text(written);
  const bool year_first = format == kIso || format == kSlashed;
  const int first = year_first ? text.number(4, 4) : text.number(1, 2);
  text.expect(separator);
  const int second = text.number(1, 2);
  text.expect(separator);
  const int third = year_first ? text.number(1, 2) : text.number(4, 4);
  if (year_first) return finish(text, first, second, third);
  return format == kMonthFirst ? finish(text, third, first, second) : finish(text, third, second, first);
}

std::optional<Date> parse_clock(std::string_view written) {
  DateText text(written);
  const Clock clock = read_clock(text);
  if (!text.done() || !clock.exists()) return std::nullopt;
  return Date{.day_part = fraction(clock.seconds() / kDaySeconds), .has_time = true};
}

std::optional<Date> parse_compact(std::string_view written) {
  if (written.size() != 8 && written.size() != 12 && written.size() != 14) return std::nullopt;
  DateText text(written);
  const int year = text.number(4, 4);
  const int month = text.number(2, 2);
  const int day = text.number(2, 2);
  if (text.done()) return from_civil(year, month, day, std::nullopt);
  Clock clock;
  clock.hour = text.number(2, 2);
  clock.minute = text.number(2, 2);
  if (!text.left().empty()) clock.second = text.number(2, 2);
  return text.done() ? from_civil(year, month, day, clock) : std::nullopt;
}

std::optional<Date> parse_month_to_minute(std::string_view written) {
  using namespace std::chrono;
  if (written.size() != 8) return std::nullopt;
  DateText text(written);
  const int month = text.number(2, 2);
  const int day = text.number(2, 2);
  Clock clock;
  clock.hour = text.number(2, 2);
  clock.minute = text.number(2, 2);
  constexpr std::chrono::year kLeap{2000};  // so that 29 February exists
  const year_month_day date(kLeap, std::chrono::month(static_cast<unsigned>(month)),
                            std::chrono::day(static_cast<unsigned>(day)));
  if (!text.done() || !date.ok() || !clock.exists()) return std::nullopt;
  const double days =
      static_cast<double>((sys_days(date) - sys_days(kLeap / January / 1)).count()) + clock.seconds() / kDaySeconds;
  return Date{.days = days, .year_part = days / 366, .day_part = fraction(days), .has_time = true};
}

std::optional<Date> parse_since_1970(std::string_view written, double per_second, std::size_t least, std::size_t most) {
  constexpr double kFrom1970To2000 = 10957;
  if (written.size() < least || written.size() > most) return std::nullopt;
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(written.data(), written.data() + written.size(), count);
  if (problem != std::errc() || end != written.data() + written.size() || count < 0) return std::nullopt;
  return with_year(static_cast<double>(count) / per_second / kDaySeconds - kFrom1970To2000, true);
}

void append_cycle(double part, std::vector<float>& numbers) {
  numbers.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * part)));
  numbers.push_back(static_cast<float>(std::cos(2 * std::numbers::pi * part)));
}

}  // namespace

const std::vector<DateFormat>& date_formats() {
  static const std::vector<DateFormat> formats{
      {"YYYY-MM-DD", true, true, false, false},       {"YYYY/MM/DD", true, true, false, false},
      {"MM/DD/YYYY", true, true, false, false},       {"DD/MM/YYYY", true, true, false, false},
      {"DD.MM.YYYY", true, true, false, false},       {"hh:mm", false, false, true, false},
      {"YYYYMMDD", true, true, false, true},          {"MMDDhhmm", false, true, true, true},
      {"seconds since 1970", true, true, true, true}, {"milliseconds since 1970", true, true, true, true}};
  return formats;
}

std::optional<std::size_t> date_format_from_name(std::string_view name) {
  const auto& formats = date_formats();
  const auto found = std::ranges::find_if(formats, [&](const DateFormat& format) { return name == format.name; });
  if (found == formats.end()) return std::nullopt;
  return static_cast<std::size_t>(found - formats.begin());
}

std::optional<Date> parse_date(std::string_view text, std::size_t format) {
  switch (format) {
    case kIso:
      return parse_separated(text, '-', format);
    case kSlashed:
    case kMonthFirst:
    case kDayFirst:
      return parse_separated(text, '/', format);
    case kDotted:
      return parse_separated(text, '.', format);
    case kClock:
      return parse_clock(text);
    case kCompact:
      return parse_compact(text);
    case kMonthToMinute:
      return parse_month_to_minute(text);
    case kSeconds:
      return parse_since_1970(text, 1, 9, 10);
    case kMilliseconds:
      return parse_since_1970(text, 1000, 12, 13);
    default:
      return std::nullopt;
  }
}

std::uint32_t fitting_dates(std::string_view text, std::uint32_t mask) {
  std::uint32_t fitting = 0;
  for (std::size_t format = 0; mask >> format != 0; ++format) {
    if ((mask >> format & 1) != 0 && parse_date(text, format)) fitting |= 1u << format;
  }
  return fitting;
}

void append_date(const Date& date, const DateFormat& format, bool time, std::vector<float>& numbers) {
  if (format.has_date) {
    numbers.push_back(static_cast<float>(date.days));
    append_cycle(date.year_part, numbers);
  }
  if (format.has_year) append_cycle(date.week_part, numbers);
  if (time) append_cycle(date.day_part, numbers);
}

std::vector<std::string> date_parts(const DateFormat& format, bool time) {
  std::vector<std::string> parts;
  if (format.has_date) parts.insert(parts.end(), {"days", "year_sin", "year_cos"});
  if (format.has_year) parts.insert(parts.end(), {"week_sin", "week_cos"});
  if (time) parts.insert(parts.end(), {"day_sin", "day_cos"});
  return parts;
}

}  // namespace trireme::data
