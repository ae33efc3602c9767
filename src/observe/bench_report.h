#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::observe {

// What a benchmark has to say, once for people (a table) and once for scripts (an object): the same numbers.

using Json = nlohmann::ordered_json;

/// A column of a table for people: which field of a row, and how its value is written.
struct BenchColumn {
  std::string key;
  std::string title;
  std::string (*format)(const Json& value) = nullptr;  ///< null: numbers and texts as they are
};

/// Formats for BenchColumn.
std::string as_size(const Json& bytes);   ///< 4096: "4 KiB"
std::string as_fixed(const Json& value);  ///< 0.123: "0.12"

/// Rows that have the same fields, in this order also in the JSON.
struct BenchTable {
  std::string key;    ///< of the array in the JSON object
  std::string title;  ///< for people: what the rows are and how to read them
  std::vector<BenchColumn> columns;
  std::vector<Json> rows;
};

/// What a figure must be, and what it was in this run.
struct BenchTarget {
  enum class Bound { kAtLeast, kAtMost };

  std::string what;
  Bound bound = Bound::kAtLeast;
  double required = 0;
  double measured = 0;
  std::string unit = {};  ///< "us"; empty: a ratio

  /// False also where nothing was measured (NaN).
  bool met() const { return bound == Bound::kAtLeast ? measured >= required : measured <= required; }
};

struct BenchReport {
  Json baseline = Json::object();  ///< speeds of the machine, by name
  std::vector<BenchTable> tables;
  std::vector<BenchTarget> targets;
};

/// One object: "baseline", an array for each table, "targets".
Json to_object(const BenchReport& report);

/// The same as aligned tables, with a line end after each line.
std::string to_text(const BenchReport& report);

/// The middle one of `values` (the upper one of two); NaN if there are none.
double median(std::vector<double> values);

}  // namespace trireme::observe
