#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::observe {

// The results of a benchmark, once for people (a table) and once for scripts (an object): the same numbers.

using Json = nlohmann::ordered_json;

/// A column of a table for people: which field of a row, and how to format its value.
struct BenchColumn {
  std::string key;
  std::string title;
  std::string (*format)(const Json& value) = nullptr;  ///< null: numbers and texts as they are
};

/// Formats for BenchColumn.
std::string as_size(const Json& bytes);   ///< 4096: "4 KiB"
std::string as_fixed(const Json& value);  ///< 0.123: "0.12"

/// Rows that have the same fields, in the same order as in the JSON.
struct BenchTable {
  std::string key;    ///< of the array in the JSON object
  std::string title;  ///< for people: what the rows are and how to read them
  std::vector<BenchColumn> columns;
  std::vector<Json> rows;
};

/// The required and the measured value of a figure.
struct BenchTarget {
  enum class Bound { kAtLeast, kAtMost };

  std::string what;
  Bound bound = Bound::kAtLeast;
  double required = 0;
  double measured = 0;
  std::string unit = {};  ///< "us"; empty: a ratio

  /// Returns whether the target was met; false if nothing was measured (NaN).
  bool met() const { return bound == Bound::kAtLeast ? measured >= required : measured <= required; }
};

struct BenchReport {
  Json baseline = Json::object();  ///< speeds of the machine, by name
  std::vector<BenchTable> tables;
  std::vector<BenchTarget> targets;
};

/// Returns one object: "baseline", an array for each table, "targets".
Json to_object(const BenchReport& report);

/// Returns the same as aligned tables, with a newline after each line.
std::string to_text(const BenchReport& report);

/// Returns the median of `values` (the upper of two); NaN if there are none.
double median(std::vector<double> values);

}  // namespace trireme::observe
