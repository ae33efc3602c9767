#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "trireme/tables.h"

#include "data/tables/dates.h"

namespace trireme::data {

/// Lets sets and maps of strings be asked for a string_view.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

constexpr std::size_t kMostCategories = std::size_t{1} << 20;  ///< different values of a category

/// What a pass over a table finds out about one column: which kinds it could be, and what each would need.
class ColumnScan {
 public:
  ColumnScan(std::string name, std::optional<ColumnKind> given);

  const std::string& name() const { return name_; }

  /// Looks at a field; `where` gives its place for a message. Throws Corrupt for a number that is not finite or out of
  /// range, and for something else in a column whose kind is given.
  void add(std::string_view text, const std::function<std::string()>& where);

  /// Returns the kind it is taken for, with what encodes it. A column that is left out has a reason in `note`. Throws
  /// Corrupt if nearly all are numbers but not quite, InvalidArgument if it has too many different values.
  ColumnEncoding decide(std::string& note) const;

  /// Returns how it is as a target.
  TargetEncoding decide_target(std::int64_t classes) const;

  std::uint64_t missing() const { return missing_; }
  bool only_numbers() const { return others_ == 0 && numbers_ > 0; }

 private:
  bool is_identifier() const;
  std::optional<std::size_t> date_format() const;
  ColumnKind kind() const;
  std::vector<std::string> vocabulary() const;
  void check_nearly_numbers() const;

  std::string name_;
  std::optional<ColumnKind> given_;
  std::uint64_t missing_ = 0;
  std::uint64_t numbers_ = 0;
  std::uint64_t others_ = 0;
  std::string first_other_;  ///< what it is and where
  double sum_ = 0;
  double least_ = 0;
  double most_ = 0;
  bool whole_ = true;
  std::uint32_t dates_ = kAllDates;  ///< ways in which all could be read
  bool has_time_ = false;
  double days_ = 0;  ///< of the first way, summed up
  std::uint64_t dated_ = 0;
  std::unordered_set<std::string, TextHash, std::equal_to<>> values_;
  bool too_many_values_ = false;
};

}  // namespace trireme::data
