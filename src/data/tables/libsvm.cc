#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "trireme/sources.h"

#include "base/error.h"
#include "data/files/byte_source.h"
#include "data/files/shards.h"
#include "data/tables/cells.h"

namespace trireme::data {
namespace {

constexpr std::size_t kMostLine = 64 * kMiB;
constexpr std::uint64_t kMostFeatures = std::uint64_t{1} << 24;
constexpr std::size_t kMostLabels = 1000;  // labels that are more different whole numbers are quantities

/// The lines of files, one after the other. Not thread-safe.
class LibsvmLines {
 public:
  explicit LibsvmLines(std::vector<std::filesystem::path> files) : files_(std::move(files)), source_(open()) {}

  /// Moves to the next line; false at the end.
  bool next(std::string_view& line) {
    text_.clear();
    while (true) {
      const std::string_view held = as_text(input_);
      const std::size_t end = held.find('\n');
      text_.append(held.substr(0, end));
      if (text_.size() > kMostLine) fail<Corrupt>("{}: longer than {} bytes", where(), kMostLine);
      input_ = input_.subspan(std::min(end == std::string_view::npos ? held.size() : end + 1, held.size()));
      if (end != std::string_view::npos) break;
      input_ = Bytes(buffer_).first(source_->read(buffer_));
      if (!input_.empty()) continue;
      if (!text_.empty()) break;
      if (opened_ == files_.size()) return false;
      source_ = open();
    }
    ++number_;
    line = text_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    return true;
  }

  std::string where() const { return fmt::format("{}, line {}", source_->path().string(), number_); }
  std::string first() const { return files_.front().string(); }

 private:
  std::unique_ptr<ByteSource> open() {
    number_ = 0;
    return std::make_unique<ByteSource>(files_[opened_++]);
  }

  std::vector<std::filesystem::path> files_;
  std::size_t opened_ = 0;
  std::uint64_t number_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(64 * kKiB);
  Bytes input_;
  std::string text_;
};

struct SparseEntry {
  std::uint32_t feature;
  float value;
};

/// Rows of a sparse matrix, and the labels as they are written.
struct Sparse {
  std::vector<std::uint64_t> begins = {0};
  std::vector<SparseEntry> entries = {};
  std::vector<double> labels = {};
  std::uint64_t features = 0;  ///< the largest index
};

std::string_view next_word(std::string_view& line) {
  const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(first);
  const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

/// `7:0.5`; indices count from 1.
SparseEntry parse_entry(std::string_view word, const LibsvmLines& lines) {
  const std::size_t colon = word.find(':');
  std::uint64_t index = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + std::min(colon, word.size()), index);
  const ParsedNumber value = colon == std::string_view::npos ? ParsedNumber{.problem = NumberProblem::kEmpty}
                                                             : parse_number(word.substr(colon + 1));
  if (problem != std::errc() || end != word.data() + colon || !value.ok()) {
    fail<Corrupt>("{}: expected index:value, such as 7:0.5, found {}", lines.where(), shown(word));
  }
  if (index == 0 || index > kMostFeatures) {
    fail<Corrupt>("{}: index {}, expected 1 to {}", lines.where(), index, kMostFeatures);
  }
  return {.feature = static_cast<std::uint32_t>(index - 1), .value = static_cast<float>(value.value)};
}

void add_line(std::string_view line, const LibsvmLines& lines, const LibsvmOptions& options, Sparse& rows) {
  line = line.substr(0, line.find('#'));
  std::string_view word = next_word(line);
  if (word.empty()) return;
  const ParsedNumber label = parse_number(word);
  if (!label.ok()) fail<Corrupt>("{}: expected a label, a number, found {}", lines.where(), shown(word));
  rows.labels.push_back(label.value);
  std::uint64_t before = 0;
  for (word = next_word(line); !word.empty(); word = next_word(line)) {
    const SparseEntry entry = parse_entry(word, lines);
    if (entry.feature + std::uint64_t{1} <= before) {
      fail<Corrupt>("{}: index {} behind {}, expected increasing ones", lines.where(), entry.feature + 1, before);
    }
    before = entry.feature + std::uint64_t{1};
    if (options.features > 0 && before > static_cast<std::uint64_t>(options.features)) {
      fail<Corrupt>("{}: index {}, expected 1 to {}", lines.where(), before, options.features);
    }
    rows.entries.push_back(entry);
  }
  rows.features = std::max(rows.features, before);
  rows.begins.push_back(rows.entries.size());
  if (rows.entries.size() * sizeof(SparseEntry) + rows.labels.size() * 16 > options.max_bytes) {
    fail<InvalidArgument>("{}: the samples take more than {} bytes of memory: split the file", lines.where(),
                          options.max_bytes);
  }
}

/// The labels that occur, in order; empty if they are quantities.
std::vector<double> find_classes(const Sparse& rows, const LibsvmOptions& options) {
  std::vector<double> known;
  for (const std::string& name : options.class_names) known.push_back(parse_number(name).value);
  if (!known.empty() || options.regression) return known;
  for (const double label : rows.labels) {
    const auto at = std::ranges::lower_bound(known, label);
    if (at != known.end() && *at == label) continue;
    if (label != std::floor(label) || std::abs(label) > 1e9 || known.size() == kMostLabels) return {};
    known.insert(at, label);
  }
  return known;
}

class Libsvm final : public Dataset {
 public:
  Libsvm(std::string name, Schema schema, Sparse rows, std::vector<std::int64_t> classes)
      : Dataset(std::move(schema)), name_(std::move(name)), rows_(std::move(rows)), classes_(std::move(classes)) {}

  std::uint64_t size() const override { return rows_.labels.size(); }
  std::string describe() const override { return name_ + ": " + summary(); }

 private:
  void fill(std::span<const std::uint64_t> indices, Batch& out, std::uint64_t /*epoch*/) const override {
    out.make_room(schema(), indices.size());
    const std::span<float> features = out.values<float>(0);
    std::ranges::fill(features, 0.0f);
    const std::size_t each = schema()[0].elements();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::uint64_t k = rows_.begins[indices[i]]; k < rows_.begins[indices[i] + 1]; ++k) {
        features[i * each + rows_.entries[k].feature] = rows_.entries[k].value;
      }
      if (classes_.empty()) {
        out.values<float>(1)[i] = static_cast<float>(rows_.labels[indices[i]]);
      } else {
        out.values<std::int64_t>(1)[i] = classes_[indices[i]];
      }
    }
  }

  std::string name_;
  Sparse rows_;
  std::vector<std::int64_t> classes_;  ///< by sample; empty if labels are quantities
};

DatasetPtr load(const std::vector<std::filesystem::path>& files, const LibsvmOptions& options) {
  LibsvmLines lines(files);
  Sparse rows;
  for (std::string_view line; lines.next(line);) add_line(line, lines, options, rows);
  if (rows.labels.empty())
    fail<Corrupt>("{}: the file is empty, expected lines of label index:value ...", lines.first());
  const auto features = options.features > 0 ? options.features : static_cast<std::int64_t>(rows.features);
  if (features == 0) fail<Corrupt>("{}: no line has a feature", lines.first());
  const std::vector<double> known = find_classes(rows, options);
  Field label{.name = "label", .role = Role::kTarget};
  std::vector<std::int64_t> classes;
  if (!known.empty()) {
    for (const double value : rows.labels) {
      const auto at = std::ranges::lower_bound(known, value);
      if (at == known.end() || *at != value) {
        fail<Corrupt>("{}: sample {} has the label {}, which is none of the {} classes", lines.first(), classes.size(),
                      value, known.size());
      }
      classes.push_back(at - known.begin());
    }
    label.dtype = DType::kI64;
    label.classes = {static_cast<std::int64_t>(known.size())};
    for (const double value : known) label.class_names.push_back(fmt::format("{:.0f}", value));
  }
  Schema schema{{.name = "features", .shape = {features}}, std::move(label)};
  return std::make_shared<Libsvm>(lines.first(), std::move(schema), std::move(rows), std::move(classes));
}

}  // namespace

DatasetPtr load_libsvm(const std::vector<std::string>& files, const LibsvmOptions& options) {
  if (options.features < 0 || static_cast<std::uint64_t>(options.features) > kMostFeatures) {
    fail<InvalidArgument>("{} features: expected 1 to {}, or 0 for as many as there are", options.features,
                          kMostFeatures);
  }
  for (std::size_t i = 0; i < options.class_names.size(); ++i) {
    const ParsedNumber label = parse_number(options.class_names[i]);
    if (!label.ok() || (i > 0 && label.value <= parse_number(options.class_names[i - 1]).value)) {
      fail<InvalidArgument>("'{}' as a class: labels of LIBSVM are numbers, given in increasing order",
                            options.class_names[i]);
    }
  }
  return load(expand(files), options);
}

}  // namespace trireme::data
