#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

/// A way to write dates.
struct DateFormat {
  const char* name;
  bool has_year;
  bool has_date;
  bool always_time;  ///< else a time of day may follow
  bool bare;         ///< digits only, like any number
};

/// All ways that are known; a set of them is a mask, bit i for entry i.
const std::vector<DateFormat>& date_formats();
constexpr std::uint32_t kAllDates = (1u << 10) - 1;

/// The entry of this name; nullopt if there is none.
std::optional<std::size_t> date_format_from_name(std::string_view name);

/// A moment.
struct Date {
  double days = 0;        ///< since 2000-01-01, or since the first of January if it has no year; 0 if it has no date
  double year_part = 0;   ///< how much of the year is over, 0 to 1
  double week_part = 0;   ///< of the week, from Monday
  double day_part = 0;    ///< of the day
  bool has_time = false;  ///< something was written of the time of day
};

/// Returns what `text` says if it is written like that, else nullopt. Times with a zone are converted to UTC.
std::optional<Date> parse_date(std::string_view text, std::size_t format);

/// Returns those of the ways in `mask` in which `text` can be read.
std::uint32_t fitting_dates(std::string_view text, std::uint32_t mask);

/// Appends the numbers that stand for a date, and what they are called behind the column's name.
void append_date(const Date& date, const DateFormat& format, bool time, std::vector<float>& numbers);
std::vector<std::string> date_parts(const DateFormat& format, bool time);

}  // namespace trireme::data
