#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/data/inspect.h"
#include "data/open/source.h"
#include "data/tables/field_statistics.h"

namespace trireme::cli {
namespace {

constexpr std::size_t kMostShown = 12;  // numbers of a field

std::string printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const char character = static_cast<char>(byte);
    text += character >= ' ' && character <= '~' ? character : '.';
  }
  return text;
}

/// `9 (truck)`, if it is known what the number names.
std::string class_text(const data::Field& field, double value) {
  const auto number = static_cast<std::size_t>(value);
  return number < field.class_names.size() ? fmt::format("{} ({})", number, field.class_names[number])
                                           : fmt::format("{}", number);
}

/// The fields of a table by the names of its columns.
std::string show_table_field(const data::TableEncoding& table, const data::Field& field,
                             std::span<const double> values) {
  std::vector<std::string> words;
  if (field.name == "numbers") {
    const std::vector<std::string> names = table.number_names();
    for (std::size_t i = 0; i < values.size(); ++i) words.push_back(fmt::format("{}={:.6g}", names[i], values[i]));
  } else {
    std::size_t i = 0;
    for (const data::ColumnEncoding& column : table.columns) {
      if (column.kind != data::ColumnKind::kCategory) continue;
      const auto number = static_cast<std::size_t>(values[i++]);
      words.push_back(fmt::format("{}={}", column.name, number == 0 ? "(missing)" : column.vocabulary[number - 1]));
    }
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::string show_field(const data::Source& source, const data::Batch& batch, std::size_t index, std::size_t sample) {
  const data::Field& field = batch.schema()[index];
  const std::size_t each = batch.bytes(index).size() / size_of(field.dtype) / batch.size();
  std::size_t held = each;
  if (field.varies()) held = static_cast<std::size_t>(batch.lengths(index)[sample]) * field.elements();
  std::vector<double> values(held);
  for (std::size_t i = 0; i < held; ++i)
    values[i] = data::number_at(field.dtype, batch.bytes(index), sample * each + i);
  if (source.table && (field.name == "numbers" || field.name == "categories")) {
    return show_table_field(*source.table, field, values);
  }
  if (source.kind == data::SourceKind::kText) {
    std::vector<std::byte> text;
    for (const double value : values) text.push_back(static_cast<std::byte>(value));
    return fmt::format("\"{}\"", printable(std::span(text).first(std::min<std::size_t>(text.size(), 72))));
  }
  if (!field.classes.empty() && held == 1) return class_text(field, values.front());
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min(held, kMostShown); ++i) words.push_back(fmt::format("{:.6g}", values[i]));
  const std::string more = held > kMostShown ? fmt::format(" ... {} in all, {:.6g} to {:.6g}", held,
                                                           std::ranges::min(values), std::ranges::max(values))
                                             : "";
  return fmt::format("{}{}", fmt::join(words, " "), more);
}

}  // namespace

int data_show(const DataInspectOptions& options) {
  for (const std::string& spec : options.data) {
    const data::Source source = data::open_source(spec, inspect_options(options));
    const data::Dataset& samples = *source.samples;
    fmt::print("{}\n", samples.describe());
    for (const std::string& note : source.notes) fmt::print("  {}\n", note);
    data::Batch batch;
    for (std::uint64_t row = 0; row < std::min(options.samples, samples.size()); ++row) {
      samples.read(std::span(&row, 1), batch);
      fmt::print("sample {}\n", row);
      for (std::size_t i = 0; i < samples.schema().size(); ++i) {
        fmt::print("  {:12} {}\n", samples.schema()[i].name, show_field(source, batch, i, 0));
      }
    }
  }
  return 0;
}

}  // namespace trireme::cli
