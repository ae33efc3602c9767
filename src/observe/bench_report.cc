#include "observe/bench_report.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "observe/table.h"

namespace trireme::observe {
namespace {

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_boolean() ? (value ? "yes" : "no") : value.dump();
}

std::string cell(const BenchColumn& column, const Json& row) {
  const Json& value = row.at(column.key);
  return column.format != nullptr ? column.format(value) : plain(value);
}

std::string to_text(const BenchTable& table) {
  TableCells cells(1);
  std::vector<bool> numeric;
  for (const BenchColumn& column : table.columns) {
    cells.front().push_back(column.title);
    numeric.push_back(!table.rows.empty() && table.rows.front().at(column.key).is_number());
  }
  for (const Json& row : table.rows) {
    auto& line = cells.emplace_back();
    for (const BenchColumn& column : table.columns) line.push_back(cell(column, row));
  }
  return table.title + "\n" + aligned(cells, numeric);
}

std::string to_text(const std::vector<BenchTarget>& targets) {
  TableCells cells{{"target", "required", "measured", ""}};
  for (const BenchTarget& target : targets) {
    const std::string sign = target.bound == BenchTarget::Bound::kAtLeast ? ">=" : "<=";
    const std::string unit = target.unit.empty() ? "" : " " + target.unit;
    cells.push_back({target.what, fmt::format("{} {:.2f}{}", sign, target.required, unit),
                     fmt::format("{:.2f}{}", target.measured, unit), target.met() ? "met" : "NOT MET"});
  }
  return "Targets\n" + aligned(cells, {false, true, true, false});
}

}  // namespace

std::string as_size(const Json& bytes) {
  const auto count = bytes.get<double>();
  if (count >= 1 << 20) return fmt::format("{:.4g} MiB", count / (1 << 20));
  if (count >= 1 << 10) return fmt::format("{:.4g} KiB", count / (1 << 10));
  return fmt::format("{} B", count);
}

std::string as_fixed(const Json& value) {
  const double number = value.get<double>();
  return std::isfinite(number) ? fmt::format("{:.2f}", number) : "–";
}

Json to_object(const BenchReport& report) {
  Json object{{"baseline", report.baseline}};
  for (const BenchTable& table : report.tables) object[table.key] = table.rows;
  Json targets = Json::array();
  for (const BenchTarget& target : report.targets) {
    const bool at_least = target.bound == BenchTarget::Bound::kAtLeast;
    targets.push_back({{"what", target.what},
                       {at_least ? "at_least" : "at_most", target.required},
                       {"measured", target.measured},
                       {"met", target.met()}});
  }
  object["targets"] = std::move(targets);
  return object;
}

std::string to_text(const BenchReport& report) {
  TableCells cells(1);
  std::vector<bool> numeric;
  cells.emplace_back();
  for (const auto& [name, value] : report.baseline.items()) {
    cells[0].push_back(name);
    cells[1].push_back(as_fixed(value));
    numeric.push_back(true);
  }
  std::string text;
  if (!report.baseline.empty()) text = "Baseline: this machine\n" + aligned(cells, numeric) + "\n";
  for (const BenchTable& table : report.tables) text += (&table == &report.tables.front() ? "" : "\n") + to_text(table);
  if (!report.targets.empty()) text += "\n" + to_text(report.targets);
  return text;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace trireme::observe
