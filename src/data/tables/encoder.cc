#include "data/tables/encoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "data/tables/cells.h"

namespace trireme::data {
namespace {

template <typename Map>
Map numbered(const std::vector<std::string>& vocabulary, std::int64_t from) {
  Map words;
  words.reserve(vocabulary.size());
  for (const std::string& word : vocabulary) words.emplace(word, from++);
  return words;
}

template <typename T>
bool compare(const T& value, const std::string& comparison, const T& bound) {
  if (comparison == ">") return value > bound;
  if (comparison == ">=") return value >= bound;
  if (comparison == "<") return value < bound;
  if (comparison == "<=") return value <= bound;
  return comparison == "==" ? value == bound : value != bound;
}

std::string inverse(const std::string& comparison) {
  if (comparison == ">") return "<=";
  if (comparison == ">=") return "<";
  if (comparison == "<") return ">=";
  if (comparison == "<=") return ">";
  return comparison == "==" ? "!=" : "==";
}

double number_in(const TableRows& rows, std::size_t column) {
  const std::string& text = rows.fields()[column];
  const ParsedNumber number = parse_number(text);
  if (!number.ok()) {
    fail<Corrupt>("{}: expected a finite number, found {}: {}", rows.at(column), text_of(number.problem), shown(text));
  }
  return number.value;
}

}  // namespace

TableEncoder::TableEncoder(const TableEncoding& encoding, const std::vector<std::string>& names, bool by_name,
                           const std::string& path) {
  if (!by_name && names.size() != encoding.columns.size()) {
    fail<InvalidArgument>("{} has {} columns and no header, expected {}", path, names.size(), encoding.columns.size());
  }
  const auto place = [&](std::size_t column) -> std::optional<std::size_t> {
    return by_name ? find_column_if(names, encoding.columns[column].name) : column;
  };
  for (std::size_t i = 0; i < encoding.columns.size(); ++i) {
    const ColumnEncoding& column = encoding.columns[i];
    if (column.kind == ColumnKind::kIgnored) continue;
    if (!place(i)) find_column(names, column.name, path);  // says what is missing
    Input input{.encoding = &column, .column = *place(i)};
    if (column.kind == ColumnKind::kCategory) {
      input.words = numbered<Words>(column.vocabulary, 1);
      limits_.push_back(static_cast<std::int64_t>(column.vocabulary.size()) + 1);
    }
    if (column.kind == ColumnKind::kDate) {
      const auto format = date_format_from_name(column.date);
      if (!format) fail<Corrupt>("the encoding writes dates as '{}', which is not known", column.date);
      input.format = *format;
    }
    inputs_.push_back(std::move(input));
  }
  numbers_each_ = encoding.number_names().size();
  for (const TargetEncoding& target : encoding.targets) {
    const auto column = place(target.column);
    if (!column) continue;
    targets_.push_back({.encoding = &target, .column = *column});
    targets_.back().words = numbered<Words>(target.vocabulary, 0);
    if (target.kind == TargetEncoding::Kind::kCondition) {
      if (const ParsedNumber bound = parse_number(target.bound); bound.ok()) targets_.back().bound = bound.value;
    }
  }
}

void TableEncoder::add(const TableRows& rows, std::uint64_t max_bytes) {
  for (const Target& target : targets_) {
    if (!is_missing(rows.fields()[target.column])) continue;
    ++skipped_;
    return;
  }
  ++rows_;
  const std::uint64_t each = numbers_each_ * sizeof(float) + (limits_.size() + targets_.size()) * sizeof(std::int64_t);
  if (rows_ * each > max_bytes) {
    fail<InvalidArgument>("{}: the table takes more than {} bytes of memory: ignore columns, or split the file",
                          rows.at_row(), max_bytes);
  }
  for (const Input& input : inputs_) {
    switch (input.encoding->kind) {
      case ColumnKind::kNumber:
        add_number(input, rows);
        break;
      case ColumnKind::kDate:
        add_date(input, rows);
        break;
      case ColumnKind::kCategory: {
        const std::string& text = rows.fields()[input.column];
        const auto word = input.words.find(text);
        categories_.push_back(word == input.words.end() || is_missing(text) ? 0 : word->second);
        break;
      }
      case ColumnKind::kIgnored:
        break;
    }
  }
  for (Target& target : targets_) add_target(target, rows);
}

void TableEncoder::add_number(const Input& input, const TableRows& rows) {
  const bool missing = is_missing(rows.fields()[input.column]);
  numbers_.push_back(static_cast<float>(missing ? input.encoding->fill : number_in(rows, input.column)));
  if (input.encoding->indicator) numbers_.push_back(missing ? 1.0f : 0.0f);
}

void TableEncoder::add_date(const Input& input, const TableRows& rows) {
  const std::string& text = rows.fields()[input.column];
  const DateFormat& format = date_formats()[input.format];
  const bool missing = is_missing(text);
  if (missing) {
    const std::size_t parts = date_parts(format, input.encoding->time).size();
    if (format.has_date) numbers_.push_back(static_cast<float>(input.encoding->fill));
    numbers_.insert(numbers_.end(), parts - (format.has_date ? 1 : 0), 0.0f);  // the centre of each circle
  } else {
    const auto date = parse_date(text, input.format);
    if (!date) fail<Corrupt>("{}: expected a date as {}, found {}", rows.at(input.column), format.name, shown(text));
    append_date(*date, format, input.encoding->time, numbers_);
  }
  if (input.encoding->indicator) numbers_.push_back(missing ? 1.0f : 0.0f);
}

void TableEncoder::add_target(Target& target, const TableRows& rows) {
  const std::string& text = rows.fields()[target.column];
  const TargetEncoding& encoding = *target.encoding;
  switch (encoding.kind) {
    case TargetEncoding::Kind::kQuantity:
      target.quantities.push_back(static_cast<float>(number_in(rows, target.column)));
      break;
    case TargetEncoding::Kind::kClass: {
      const auto word = target.words.find(text);
      if (word == target.words.end()) {
        fail<Corrupt>("{}: {} is none of the {} classes of '{}'", rows.at(target.column), shown(text), encoding.classes,
                      encoding.name);
      }
      target.classes.push_back(word->second);
      break;
    }
    case TargetEncoding::Kind::kNumbered: {
      const double value = number_in(rows, target.column);
      if (value != std::floor(value) || value < 0 || value >= static_cast<double>(encoding.classes)) {
        fail<Corrupt>("{}: expected a class, a whole number from 0 to {}, found {}", rows.at(target.column),
                      encoding.classes - 1, shown(text));
      }
      target.classes.push_back(static_cast<std::int64_t>(value));
      break;
    }
    case TargetEncoding::Kind::kCondition: {
      const bool holds = target.bound ? compare(number_in(rows, target.column), encoding.comparison, *target.bound)
                                      : compare(text, encoding.comparison, encoding.bound);
      target.classes.push_back(holds ? 1 : 0);
      break;
    }
  }
}

DatasetPtr TableEncoder::finish(const std::string& name) {
  if (rows_ == 0) {
    fail<Corrupt>("{}: no rows{}", name, skipped_ > 0 ? fmt::format(" with a target, of {}", skipped_) : "");
  }
  std::vector<Column> columns;
  if (numbers_each_ > 0) {
    numbers_.shrink_to_fit();
    columns.push_back(input("numbers", std::move(numbers_), {static_cast<std::int64_t>(numbers_each_)}));
  }
  if (!limits_.empty()) {
    categories_.shrink_to_fit();
    columns.push_back(column<std::int64_t>(
        {.name = "categories", .shape = {static_cast<std::int64_t>(limits_.size())}, .classes = limits_},
        std::move(categories_)));
  }
  for (Target& target : targets_) {
    const TargetEncoding& encoding = *target.encoding;
    if (encoding.kind == TargetEncoding::Kind::kQuantity) {
      columns.push_back(data::target(encoding.name, std::move(target.quantities)));
      continue;
    }
    Column labels = label(encoding.name, std::move(target.classes), encoding.classes);
    labels.field.class_names = encoding.vocabulary;
    if (encoding.kind == TargetEncoding::Kind::kCondition) {
      const std::size_t operators = encoding.name.rfind(encoding.comparison + encoding.bound);
      labels.field.class_names = {encoding.name.substr(0, operators) + inverse(encoding.comparison) + encoding.bound,
                                  encoding.name};
    }
    columns.push_back(std::move(labels));
  }
  return in_memory(name, std::move(columns));
}

}  // namespace trireme::data
