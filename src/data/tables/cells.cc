#include "data/tables/cells.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace trireme::data {

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char character : text.substr(0, kMost)) {
    result += character >= ' ' && character <= '~' ? character : '?';
  }
  return result + (text.size() > kMost ? "...'" : "'");
}

const char* text_of(NumberProblem problem) {
  switch (problem) {
    case NumberProblem::kNone:
      return "a number";
    case NumberProblem::kEmpty:
      return "an empty field";
    case NumberProblem::kNotANumber:
      return "something else";
    case NumberProblem::kNotFinite:
      return "a value that is not finite";
    case NumberProblem::kOutOfRange:
      return "one beyond the range of a float";
  }
  return "";
}

ParsedNumber parse_number(std::string_view text) {
  if (text.empty()) return {.problem = NumberProblem::kEmpty};
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);  // from_chars accepts no plus
  ParsedNumber result;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result.value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) {
    result.problem = NumberProblem::kNotANumber;
  } else if (!std::isfinite(result.value)) {
    result.problem = NumberProblem::kNotFinite;
  } else if (error == std::errc::result_out_of_range ||
             std::abs(result.value) > static_cast<double>(std::numeric_limits<float>::max())) {
    result.problem = NumberProblem::kOutOfRange;
  }
  return result;
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 10> kMissing{"",     "NA",   "N/A",  "NaN", "nan",
                                                      "null", "NULL", "None", "n/a", "?"};
  return text.size() <= 4 && std::ranges::find(kMissing, text) != kMissing.end();
}

}  // namespace trireme::data
