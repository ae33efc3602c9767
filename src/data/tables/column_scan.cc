#include "data/tables/column_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/tables/cells.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMostValuesOfNumbers = 65536;  // that are remembered while a column is not known to be a category
constexpr std::uint64_t kFewRows = 32;               // of which nothing can be said about how many values repeat
constexpr std::size_t kMostTargetClasses = 1000;     // a target of more whole numbers is a quantity
constexpr std::uint64_t kNearlyAll = 10;  // a column with one other among more numbers than this is damaged, not text

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

ColumnScan::ColumnScan(std::string name, std::optional<ColumnKind> given) : name_(std::move(name)), given_(given) {
  const std::string called = lower(name_);
  const bool dated = called.find("date") != std::string::npos || called.find("time") != std::string::npos;
  if (given_ == ColumnKind::kDate || dated) return;
  for (std::size_t i = 0; i < date_formats().size(); ++i) {
    if (date_formats()[i].bare) dates_ &= ~(1u << i);
  }
}

bool ColumnScan::is_identifier() const {
  return lower(name_).ends_with("id") && (name_.size() == 2 || name_[name_.size() - 2] == 'I' ||
                                          name_[name_.size() - 3] == '_' || name_[name_.size() - 3] == ' ');
}

void ColumnScan::add(std::string_view text, const std::function<std::string()>& where) {
  if (given_ == ColumnKind::kIgnored) return;
  if (is_missing(text)) {
    ++missing_;
    return;
  }
  const ParsedNumber number = parse_number(text);
  if (number.ok()) {
    least_ = numbers_ == 0 ? number.value : std::min(least_, number.value);
    most_ = numbers_ == 0 ? number.value : std::max(most_, number.value);
    ++numbers_;
    sum_ += number.value;
    whole_ = whole_ && number.value == std::floor(number.value);
  } else {
    const bool unusable = number.problem == NumberProblem::kNotFinite || number.problem == NumberProblem::kOutOfRange;
    if (given_ == ColumnKind::kNumber || (unusable && others_ == 0)) {
      fail<Corrupt>("{}: expected a finite number, found {}: {}", where(), text_of(number.problem), shown(text));
    }
    if (others_++ == 0) first_other_ = fmt::format("{}: {}", where(), shown(text));
  }
  if (dates_ != 0) {
    dates_ = fitting_dates(text, dates_);
    if (dates_ == 0 && given_ == ColumnKind::kDate) {
      fail<Corrupt>("{}: expected a date written as those before, found {}", where(), shown(text));
    }
    if (dates_ != 0) {
      const Date date = *parse_date(text, static_cast<std::size_t>(std::countr_zero(dates_)));
      has_time_ = has_time_ || date.has_time;
      days_ += date.days;
      ++dated_;
    }
  }
  if (too_many_values_ || values_.contains(text)) return;
  const bool may_have_many = others_ > 0 || given_ == ColumnKind::kCategory || is_identifier();
  if (values_.size() == (may_have_many ? kMostCategories : kMostValuesOfNumbers)) {
    too_many_values_ = true;
    values_.clear();
    return;
  }
  values_.emplace(text);
}

std::optional<std::size_t> ColumnScan::date_format() const {
  if (dates_ == 0 || dated_ == 0) return std::nullopt;
  return static_cast<std::size_t>(std::countr_zero(dates_));
}

ColumnKind ColumnScan::kind() const {
  if (given_) return *given_;
  if (numbers_ + others_ == 0) return ColumnKind::kIgnored;
  if (date_format()) return ColumnKind::kDate;
  if (only_numbers()) return whole_ && is_identifier() ? ColumnKind::kCategory : ColumnKind::kNumber;
  check_nearly_numbers();
  return ColumnKind::kCategory;
}

void ColumnScan::check_nearly_numbers() const {
  if (others_ == 0 || numbers_ / kNearlyAll < others_) return;
  fail<Corrupt>("{}: expected a number, as {} others in column '{}' are; mend it, or say that it is a category",
                first_other_, numbers_, name_);
}

std::vector<std::string> ColumnScan::vocabulary() const {
  if (too_many_values_) {
    fail<InvalidArgument>("column '{}' has more than {} different values: ignore it, or make fewer of them", name_,
                          kMostCategories);
  }
  std::vector<std::string> words(values_.begin(), values_.end());
  std::ranges::sort(words, [&](const std::string& a, const std::string& b) {
    if (others_ == 0) return std::pair(parse_number(a).value, a) < std::pair(parse_number(b).value, b);
    return a < b;
  });
  return words;
}

ColumnEncoding ColumnScan::decide(std::string& note) const {
  ColumnEncoding encoding{.name = name_, .kind = kind()};
  const std::uint64_t present = numbers_ + others_;
  if (!given_ && encoding.kind == ColumnKind::kIgnored)
    note = fmt::format("column '{}' is left out: it is empty", name_);
  if (!given_ && encoding.kind == ColumnKind::kCategory && !only_numbers() && present > kFewRows &&
      (too_many_values_ || values_.size() > present / 2)) {
    note = fmt::format(
        "column '{}' is left out: it is free text, with {} different values in {} rows; --types '{}=category' takes it",
        name_, too_many_values_ ? fmt::format("more than {}", kMostCategories) : fmt::format("{}", values_.size()),
        present, name_);
    encoding.kind = ColumnKind::kIgnored;
  }
  if (present == 0 && encoding.kind != ColumnKind::kIgnored) {
    fail<InvalidArgument>("column '{}' is said to be a {}, and it is empty", name_, name_of(encoding.kind));
  }
  if (encoding.kind == ColumnKind::kCategory) encoding.vocabulary = vocabulary();
  if (encoding.kind == ColumnKind::kNumber) encoding.fill = sum_ / static_cast<double>(numbers_);
  if (encoding.kind == ColumnKind::kDate) {
    encoding.date = date_formats()[*date_format()].name;
    encoding.time = has_time_;
    encoding.fill = days_ / static_cast<double>(dated_);
  }
  encoding.indicator = missing_ > 0 && (encoding.kind == ColumnKind::kNumber || encoding.kind == ColumnKind::kDate);
  return encoding;
}

TargetEncoding ColumnScan::decide_target(std::int64_t classes) const {
  TargetEncoding target{.name = name_};
  if (numbers_ + others_ == 0) fail<InvalidArgument>("target '{}' is missing in every row", name_);
  const bool numbered = only_numbers() && whole_ && least_ >= 0 && given_ != ColumnKind::kNumber &&
                        (classes > 0 || (!too_many_values_ && values_.size() <= kMostTargetClasses &&
                                         most_ < 2 * static_cast<double>(values_.size()) + 8));
  if (numbered && given_ != ColumnKind::kCategory) {
    if (classes > 0 && most_ >= static_cast<double>(classes)) {
      fail<InvalidArgument>("target '{}' has class {}, expected 0 to {}", name_, most_, classes - 1);
    }
    target.kind = TargetEncoding::Kind::kNumbered;
    target.classes = classes > 0 ? classes : static_cast<std::int64_t>(most_) + 1;
    return target;
  }
  if (only_numbers() && given_ != ColumnKind::kCategory) return target;
  if (given_ != ColumnKind::kCategory) check_nearly_numbers();
  target.kind = TargetEncoding::Kind::kClass;
  target.vocabulary = vocabulary();
  target.classes = static_cast<std::int64_t>(target.vocabulary.size());
  const std::uint64_t present = numbers_ + others_;
  if (given_ != ColumnKind::kCategory && present > kFewRows && target.vocabulary.size() > present / 2) {
    fail<InvalidArgument>("target '{}' is free text, with {} different values in {} rows: name another column", name_,
                          target.vocabulary.size(), present);
  }
  if (classes > 0 && target.classes > classes) {
    fail<InvalidArgument>("target '{}' has {} classes, expected {}", name_, target.classes, classes);
  }
  return target;
}

}  // namespace trireme::data
