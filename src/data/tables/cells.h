#pragma once

#include <string>
#include <string_view>

namespace trireme::data {

/// Returns `text` in quotes, made safe for one line of a message.
std::string shown(std::string_view text);

/// Why a field is not an accepted number.
enum class NumberProblem { kNone, kEmpty, kNotANumber, kNotFinite, kOutOfRange };

/// Returns what was found instead of a number: `an empty field`.
const char* text_of(NumberProblem problem);

struct ParsedNumber {
  double value = 0;
  NumberProblem problem = NumberProblem::kNone;

  bool ok() const { return problem == NumberProblem::kNone; }
};

/// Reads a finite decimal number within the range of a float.
ParsedNumber parse_number(std::string_view text);

/// Whether a field of a table says that there is no value: it is empty, or NA, N/A, NaN, null, None or ?.
bool is_missing(std::string_view text);

}  // namespace trireme::data
