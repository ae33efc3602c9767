#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "trireme/sources.h"

#include "base/error.h"
#include "base/suggest.h"
#include "data/files/mirrors.h"
#include "data/shape.h"
#include "data/tables/cells.h"
#include "data/tables/csv_reader.h"

namespace trireme::data {
namespace {

/// The most classes accepted when no option gives their number: with more, the column is probably not the label.
constexpr std::int64_t kMostClassesGuessed = 65536;

/// Reads rows into features and labels; holds what is known of the columns.
class CsvLoader {
 public:
  CsvLoader(const std::filesystem::path& path, const CsvOptions& options)
      : options_(options), reader_(path, options.separator, options.max_bytes) {}

  DatasetPtr load() {
    if (!reader_.next()) fail<Corrupt>("{}: the file is empty, expected rows of numbers", path());
    first_line_ = reader_.line();
    columns_ = reader_.fields().size();
    if (columns_ < 2) {
      fail<Corrupt>("{}, line {}: expected a label and at least one feature, found one column; is the separator '{}'?",
                    path(), first_line_, options_.separator);
    }
    bool more = true;
    if (is_header()) {
      names_.assign(reader_.fields().begin(), reader_.fields().end());
      more = reader_.next();
      if (!more)
        fail<Corrupt>("{}: there is only a header, expected rows of numbers behind line {}", path(), first_line_);
    }
    label_column_ = find_label_column();
    for (; more; more = reader_.next()) add_row();
    return finish();
  }

 private:
  std::string path() const { return reader_.path().string(); }

  bool is_header() const {
    if (options_.header != CsvHeader::kDetect) return options_.header == CsvHeader::kPresent;
    // NaN and numbers out of range count as numbers here: they are bad data, not names.
    return std::ranges::all_of(reader_.fields(), [](const std::string& field) {
      const NumberProblem problem = parse_number(field).problem;
      return problem == NumberProblem::kNotANumber || problem == NumberProblem::kEmpty;
    });
  }

  std::size_t find_label_column() const {
    if (const auto* name = std::get_if<std::string>(&options_.label_column)) {
      if (names_.empty()) {
        fail<InvalidArgument>("{} has no header: give the label column '{}' by its position", path(), *name);
      }
      const auto found = std::ranges::find(names_, *name);
      if (found == names_.end()) {
        fail<InvalidArgument>("{} has no column '{}'{}; it has: {}", path(), *name, did_you_mean(*name, names_),
                              fmt::join(std::span(names_).first(std::min<std::size_t>(names_.size(), 20)), ", "));
      }
      return static_cast<std::size_t>(found - names_.begin());
    }
    const auto count = static_cast<std::int64_t>(columns_);
    const std::int64_t given = std::get<std::int64_t>(options_.label_column);
    if (given < -count || given >= count) {
      fail<InvalidArgument>("{} has no label column {}: expected {} to {}", path(), given, -count, count - 1);
    }
    return static_cast<std::size_t>(given < 0 ? given + count : given);
  }

  void add_row() {
    const std::span<const std::string> fields = reader_.fields();
    if (fields.size() != columns_) {
      fail<Corrupt>("{}, line {}: expected {} columns as in line {}, found {}", path(), reader_.line(), columns_,
                    first_line_, fields.size());
    }
    for (std::size_t column = 0; column < columns_; ++column) {
      const ParsedNumber parsed = parse_number(fields[column]);
      if (parsed.problem != NumberProblem::kNone) {
        fail_field(column, column == label_column_ ? "a label, a number from 0 on" : "a finite number",
                   text_of(parsed.problem));
      }
      if (column == label_column_) {
        labels_.push_back(to_label(parsed.value));
      } else {
        features_.push_back(static_cast<float>(parsed.value));
      }
    }
  }

  std::int64_t to_label(double value) const {
    const std::int64_t most = (options_.classes > 0 ? options_.classes : kMostClassesGuessed) - 1;
    if (value != std::floor(value) || value < 0 || value > static_cast<double>(most)) {
      fail_field(label_column_, fmt::format("a label, a whole number from 0 to {}", most), "another number");
    }
    return static_cast<std::int64_t>(value);
  }

  [[noreturn]] void fail_field(std::size_t column, std::string_view expected, std::string_view found) const {
    const std::string name = names_.empty() ? "" : fmt::format(" ({})", shown(names_[column]));
    const bool maybe_header = names_.empty() && reader_.line() == first_line_;
    fail<Corrupt>("{}, line {}, column {}{}: expected {}, found {}: {}{}", path(), reader_.line(), column + 1, name,
                  expected, found, shown(reader_.fields()[column]),
                  maybe_header ? "; if this line is a header, say so" : "");
  }

  DatasetPtr finish() {
    const std::int64_t classes = options_.classes > 0 ? options_.classes : *std::ranges::max_element(labels_) + 1;
    std::vector<std::int64_t> shape = options_.shape;
    const std::size_t features = columns_ - 1;
    if (shape.empty()) shape = {static_cast<std::int64_t>(features)};
    if (shape_elements(shape) != features) {
      fail<InvalidArgument>("{} has {} features in a row, which do not make a sample of {}", path(), features,
                            shape_text(shape));
    }
    features_.shrink_to_fit();
    return in_memory(path(), {input("features", std::move(features_), std::move(shape)),
                              label("label", std::move(labels_), classes)});
  }

  const CsvOptions& options_;
  CsvReader reader_;
  std::vector<std::string> names_;  ///< from the header; empty without one
  std::uint64_t first_line_ = 0;
  std::size_t columns_ = 0;
  std::size_t label_column_ = 0;
  std::vector<float> features_;
  std::vector<std::int64_t> labels_;
};

}  // namespace

DatasetPtr load_csv(const Mirrors& files, const CsvOptions& options) {
  if (options.classes < 0)
    fail<InvalidArgument>("invalid number of classes {}: use a positive number, or 0", options.classes);
  return read_any(files, [&](const std::filesystem::path& path) { return CsvLoader(path, options).load(); });
}

}  // namespace trireme::data
