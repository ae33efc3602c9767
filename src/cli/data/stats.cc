#include <algorithm>

#include <fmt/format.h>

#include "cli/data/inspect.h"
#include "data/open/source.h"
#include "data/tables/field_statistics.h"
#include "observe/bench_report.h"

namespace trireme::cli {
namespace {

using observe::Json;

constexpr std::size_t kMostClassesShown = 20;

std::string short_number(const Json& value) { return fmt::format("{:.6g}", value.get<double>()); }

Json row_of(const std::string& name, const data::Moments& numbers) {
  return {{"field", name},
          {"count", numbers.count()},
          {"not_finite", numbers.not_finite()},
          {"least", numbers.least()},
          {"mean", numbers.mean()},
          {"greatest", numbers.most()},
          {"deviation", numbers.deviation()}};
}

/// What the elements of a field are called: columns of a table, channels of an image, positions.
std::string element_name(const data::Source& source, const data::Field& field, std::size_t i, std::size_t count) {
  if (source.table && field.name == "numbers") return source.table->number_names()[i];
  if (source.table && field.name == "categories") return source.table->category_names()[i];
  return count == 1 ? field.name : fmt::format("{}[{}]", field.name, i);
}

std::string class_name(const data::Source& source, const data::Field& field, std::size_t element, std::int64_t number) {
  const auto index = static_cast<std::size_t>(number);
  if (source.table && field.name == "categories") {
    if (number == 0) return "(missing)";
    const std::string wanted = source.table->category_names()[element];
    const auto column = std::ranges::find(source.table->columns, wanted, &data::ColumnEncoding::name);
    return column->vocabulary[index - 1];
  }
  return index < field.class_names.size() ? field.class_names[index] : "";
}

/// The classes that occur most, and how many others there are.
void add_classes(const data::Source& source, const data::FieldStatistics& of, observe::BenchTable& table) {
  for (std::size_t element = 0; element < of.counts.size(); ++element) {
    const std::string name = element_name(source, of.field, element, of.counts.size());
    std::vector<std::pair<std::int64_t, std::uint64_t>> counts(of.counts[element].begin(), of.counts[element].end());
    std::ranges::stable_sort(counts, std::ranges::greater{}, &std::pair<std::int64_t, std::uint64_t>::second);
    std::uint64_t others = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto [number, count] = counts[i];
      if (i >= kMostClassesShown) {
        others += count;
        continue;
      }
      table.rows.push_back({{"field", name},
                            {"class", number},
                            {"name", class_name(source, of.field, element, number)},
                            {"samples", count}});
    }
    if (others > 0) {
      table.rows.push_back({{"field", name},
                            {"class", -1},
                            {"name", fmt::format("{} others", counts.size() - kMostClassesShown)},
                            {"samples", others}});
    }
  }
}

}  // namespace

int data_stats(const DataInspectOptions& options) {
  for (const std::string& spec : options.data) {
    const data::Source source = data::open_source(spec, inspect_options(options));
    observe::BenchTable numbers{.key = "numbers",
                                .title = "Quantities",
                                .columns = {{.key = "field", .title = "field"},
                                            {.key = "count", .title = "numbers"},
                                            {.key = "not_finite", .title = "not finite"},
                                            {.key = "least", .title = "least", .format = short_number},
                                            {.key = "mean", .title = "mean", .format = short_number},
                                            {.key = "greatest", .title = "greatest", .format = short_number},
                                            {.key = "deviation", .title = "deviation", .format = short_number}},
                                .rows = {}};
    observe::BenchTable classes{.key = "classes",
                                .title = "Classes, those that occur most first",
                                .columns = {{.key = "field", .title = "field"},
                                            {.key = "class", .title = "class"},
                                            {.key = "name", .title = "name"},
                                            {.key = "samples", .title = "samples"}},
                                .rows = {}};
    for (const data::FieldStatistics& field : data::statistics_of(*source.samples)) {
      for (std::size_t i = 0; i < field.quantities.size(); ++i) {
        numbers.rows.push_back(
            row_of(element_name(source, field.field, i, field.quantities.size()), field.quantities[i]));
      }
      if (field.field.varies()) numbers.rows.push_back(row_of(field.field.name + ", its length", field.lengths));
      add_classes(source, field, classes);
    }
    observe::BenchReport report;
    if (!numbers.rows.empty()) report.tables.push_back(std::move(numbers));
    if (!classes.rows.empty()) report.tables.push_back(std::move(classes));
    if (options.json) {
      fmt::print("{}\n", observe::to_object(report).dump());
    } else {
      fmt::print("{}\n{}", source.samples->describe(), observe::to_text(report));
    }
  }
  return 0;
}

}  // namespace trireme::cli
