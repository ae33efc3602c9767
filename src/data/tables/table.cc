#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "trireme/tables.h"

#include "base/error.h"
#include "data/files/mirrors.h"
#include "data/files/shards.h"
#include "data/tables/cells.h"
#include "data/tables/column_scan.h"
#include "data/tables/encoder.h"
#include "data/tables/rows.h"

namespace trireme::data {
namespace {

using Paths = std::vector<std::filesystem::path>;

std::string name_of_files(const Paths& files) {
  return files.size() == 1 ? files.front().string()
                           : fmt::format("{} and {} more", files.front().string(), files.size() - 1);
}

/// Takes `delay>15` apart: the name, the comparison, the bound. nullopt if it has no comparison.
std::optional<std::array<std::string, 3>> split_condition(const std::string& text) {
  for (const char* comparison : {">=", "<=", "==", "!=", ">", "<", "="}) {
    const std::size_t at = text.find(comparison);
    if (at == std::string::npos || at == 0) continue;
    const std::string_view sign = comparison;
    const auto trimmed = [](std::string part) {
      const std::size_t first = part.find_first_not_of(' ');
      return first == std::string::npos ? "" : part.substr(first, part.find_last_not_of(' ') - first + 1);
    };
    return std::array{trimmed(text.substr(0, at)), std::string(sign == "=" ? "==" : sign),
                      trimmed(text.substr(at + sign.size()))};
  }
  return std::nullopt;
}

/// A target as it was asked for: a column, and maybe a condition on it.
TargetEncoding find_target(const std::string& given, const std::vector<std::string>& names, const std::string& path) {
  if (const auto column = find_column_if(names, given)) return {.name = names[*column], .column = *column};
  const auto condition = split_condition(given);
  if (!condition) find_column(names, given, path);
  const auto& [name, comparison, bound] = *condition;
  if (bound.empty()) {
    fail<InvalidArgument>("target '{}' compares with nothing: write it as '{}{}15'", given, name, comparison);
  }
  const std::size_t column = find_column(names, name, path);
  return {.name = names[column] + comparison + bound,
          .column = column,
          .kind = TargetEncoding::Kind::kCondition,
          .classes = 2,
          .comparison = comparison,
          .bound = bound};
}

/// Throws unless a condition on this column makes sense.
void check_condition(const TargetEncoding& target, const ColumnScan& column) {
  const bool ordered = target.comparison != "==" && target.comparison != "!=";
  const bool number = parse_number(target.bound).ok();
  if (ordered && !number) {
    fail<InvalidArgument>("target '{}': {} compares numbers, and '{}' is none; == and != also compare words",
                          target.name, target.comparison, target.bound);
  }
  if (number && !column.only_numbers()) {
    fail<InvalidArgument>("target '{}' compares numbers, and column '{}' has other values", target.name, column.name());
  }
}

/// What was asked for, by the columns of the file.
struct Request {
  std::vector<TargetEncoding> targets = {};
  std::vector<std::optional<ColumnKind>> kinds = {};  ///< by column; nullopt = to be found
};

Request resolve(const TableOptions& options, const std::vector<std::string>& names, const std::string& path) {
  Request request;
  request.kinds.resize(names.size());
  for (const auto& [name, kind] : options.types) request.kinds[find_column(names, name, path)] = kind;
  for (const std::string& name : options.ignore) request.kinds[find_column(names, name, path)] = ColumnKind::kIgnored;
  const std::vector<std::string> wanted = options.targets.empty() ? std::vector<std::string>{"-1"} : options.targets;
  std::set<std::string> taken{"numbers", "categories"};
  for (const std::string& given : wanted) {
    TargetEncoding target = find_target(given, names, path);
    if (!taken.insert(target.name).second) {
      fail<InvalidArgument>("{}: '{}' cannot be a target twice, nor be called numbers or categories", path,
                            target.name);
    }
    auto& kind = request.kinds[target.column];
    if (kind == ColumnKind::kIgnored)
      fail<InvalidArgument>("{}: column '{}' is a target, and ignored", path, target.name);
    if (kind == ColumnKind::kDate) fail<InvalidArgument>("{}: column '{}' is a date: no target", path, target.name);
    request.targets.push_back(std::move(target));
  }
  return request;
}

std::vector<ColumnScan> scan(TableRows& rows, const Request& request) {
  std::vector<ColumnScan> columns;
  for (std::size_t i = 0; i < rows.names().size(); ++i) columns.emplace_back(rows.names()[i], request.kinds[i]);
  bool empty = true;
  for (; rows.next(); empty = false) {
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].add(rows.fields()[i], [&] { return rows.at(i); });
  }
  if (empty) fail<Corrupt>("{}: no rows, only a header", rows.path());
  return columns;
}

/// Decides what each column is, after a pass over all rows.
TableEncoding find_encoding(TableRows& rows, const TableOptions& options, std::vector<std::string>& notes) {
  TableEncoding encoding{.header = rows.has_header()};
  const Request request = resolve(options, rows.names(), rows.path());
  const std::vector<ColumnScan> columns = scan(rows, request);
  std::set<std::size_t> of_targets;
  for (const TargetEncoding& target : request.targets) {
    const ColumnScan& column = columns[target.column];
    of_targets.insert(target.column);
    if (target.kind == TargetEncoding::Kind::kCondition) {
      check_condition(target, column);
      encoding.targets.push_back(target);
    } else {
      encoding.targets.push_back(column.decide_target(options.classes));
      encoding.targets.back().column = target.column;
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (of_targets.contains(i)) {
      encoding.columns.push_back({.name = columns[i].name(), .kind = ColumnKind::kIgnored});
      continue;
    }
    std::string note;
    encoding.columns.push_back(columns[i].decide(note));
    if (!note.empty()) notes.push_back(std::move(note));
  }
  return encoding;
}

/// Reads all rows by `encoding`, which has to outlive the call only.
DatasetPtr read_rows(const Paths& files, const TableEncoding& encoding, std::uint64_t max_bytes,
                     std::vector<std::string>& notes) {
  TableRows rows(files, encoding.separator, encoding.header ? CsvHeader::kPresent : CsvHeader::kAbsent, max_bytes);
  TableEncoder encoder(encoding, rows.names(), encoding.header, rows.path());
  while (rows.next()) encoder.add(rows, max_bytes);
  DatasetPtr samples = encoder.finish(name_of_files(files));
  if (encoder.skipped() > 0) {
    notes.push_back(fmt::format("{} rows of {} are left out: their target is missing", encoder.skipped(),
                                encoder.skipped() + samples->size()));
  }
  return samples;
}

Table load(const Paths& files, const TableOptions& options) {
  const char separator = options.separator != 0 ? options.separator : find_separator(files.front());
  Table table;
  TableRows rows(files, separator, options.header, options.max_bytes);
  table.encoding = find_encoding(rows, options, table.notes);
  table.encoding.separator = separator;
  if (table.encoding.number_names().empty() && table.encoding.category_names().empty()) {
    fail<InvalidArgument>("{} has no column that a model could use: there are {}; is the separator '{}'?", rows.path(),
                          fmt::join(rows.names(), ", "), separator == '\t' ? "tab" : std::string(1, separator));
  }
  table.samples = read_rows(files, table.encoding, options.max_bytes, table.notes);
  return table;
}

}  // namespace

std::string_view name_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kNumber:
      return "number";
    case ColumnKind::kDate:
      return "date";
    case ColumnKind::kCategory:
      return "category";
    case ColumnKind::kIgnored:
      return "ignore";
  }
  return "";
}

std::vector<std::string> TableEncoding::number_names() const {
  std::vector<std::string> names;
  for (const ColumnEncoding& column : columns) {
    if (column.kind == ColumnKind::kNumber) names.push_back(column.name);
    if (column.kind == ColumnKind::kDate) {
      const auto format = date_format_from_name(column.date);
      if (!format) fail<Corrupt>("column '{}' is encoded as a date '{}', which is not known", column.name, column.date);
      for (const std::string& part : date_parts(date_formats()[*format], column.time)) {
        names.push_back(column.name + ":" + part);
      }
    }
    if (column.indicator) names.push_back(column.name + ":missing");
  }
  return names;
}

std::vector<std::string> TableEncoding::category_names() const {
  std::vector<std::string> names;
  for (const ColumnEncoding& column : columns) {
    if (column.kind == ColumnKind::kCategory) names.push_back(column.name);
  }
  return names;
}

Table load_table(const Mirrors& files, const TableOptions& options) {
  if (options.classes < 0) {
    fail<InvalidArgument>("invalid number of classes {}: use a positive number, or 0", options.classes);
  }
  return read_any(files, [&](const std::filesystem::path& place) {
    const std::vector<std::string> pattern = {place.string()};
    return load(expand(pattern), options);
  });
}

DatasetPtr load_table(const Mirrors& files, const TableEncoding& encoding, std::uint64_t max_bytes) {
  return read_any(files, [&](const std::filesystem::path& place) {
    const std::vector<std::string> pattern = {place.string()};
    std::vector<std::string> notes;
    return read_rows(expand(pattern), encoding, max_bytes, notes);
  });
}

}  // namespace trireme::data
