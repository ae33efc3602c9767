#include "data/tables/rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"
#include "data/tables/cells.h"

namespace trireme::data {
namespace {

bool is_header(std::span<const std::string> fields, CsvHeader given) {
  if (given != CsvHeader::kDetect) return given == CsvHeader::kPresent;
  // NaN and numbers out of range count as numbers here: they are bad data, not names.
  return std::ranges::all_of(fields, [](const std::string& field) {
    const NumberProblem problem = parse_number(field).problem;
    return problem == NumberProblem::kNotANumber || problem == NumberProblem::kEmpty;
  });
}

/// The names in a header, each of them once: an empty one is called after its position, a second `x` is `x.1`.
std::vector<std::string> names_in(std::span<const std::string> fields) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string wanted = fields[i].empty() ? fmt::format("column {}", i) : fields[i];
    std::string name = wanted;
    for (int more = 1; !taken.insert(name).second; ++more) name = fmt::format("{}.{}", wanted, more);
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

char find_separator(const std::filesystem::path& path) {
  constexpr std::array kCandidates{',', '\t', ';', '|'};
  std::vector<std::byte> buffer(64 * kKiB);
  ByteSource source(path);
  std::array<std::size_t, kCandidates.size()> counts{};
  bool quoted = false;
  bool begun = false;
  for (const char character : as_text(Bytes(buffer).first(source.read(buffer)))) {
    if (character == '"') quoted = !quoted;
    if (!quoted && (character == '\n' || character == '\r')) {
      if (begun) break;
      continue;  // empty lines before it
    }
    begun = true;
    const auto* const found = std::ranges::find(kCandidates, character);
    if (!quoted && found != kCandidates.end()) ++counts[static_cast<std::size_t>(found - kCandidates.begin())];
  }
  return kCandidates[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

TableRows::TableRows(std::vector<std::filesystem::path> files, char separator, CsvHeader header,
                     std::uint64_t max_bytes)
    : files_(std::move(files)), separator_(separator), max_bytes_(max_bytes) {
  reader_ = std::make_unique<CsvReader>(files_.front(), separator_, max_bytes_);
  opened_ = 1;
  if (!reader_->next()) fail<Corrupt>("{}: the file is empty, expected rows of a table", path());
  has_header_ = is_header(reader_->fields(), header);
  if (has_header_) {
    names_ = names_in(reader_->fields());
  } else {
    for (std::size_t i = 0; i < reader_->fields().size(); ++i) names_.push_back(fmt::format("column {}", i));
    at_first_ = true;
  }
}

bool TableRows::open_next() {
  if (opened_ == files_.size()) return false;
  reader_ = std::make_unique<CsvReader>(files_[opened_++], separator_, max_bytes_);
  if (!reader_->next()) fail<Corrupt>("{}: the file is empty, expected rows of a table", path());
  at_first_ = !has_header_;
  if (has_header_ && names_in(reader_->fields()) != names_) {
    fail<Corrupt>("{}: another header than in {}: expected {}", at_row(), files_.front().string(),
                  fmt::join(names_, ", "));
  }
  return true;
}

bool TableRows::next() {
  while (!std::exchange(at_first_, false) && !reader_->next()) {
    if (!open_next()) return false;
  }
  if (fields().size() != names_.size()) {
    fail<Corrupt>("{}: expected {} columns, found {}", at_row(), names_.size(), fields().size());
  }
  return true;
}

std::string TableRows::at_row() const { return fmt::format("{}, line {}", path(), reader_->line()); }

std::string TableRows::at(std::size_t column) const {
  return has_header_ ? fmt::format("{}, column {} ({})", at_row(), column + 1, shown(names_[column]))
                     : fmt::format("{}, column {}", at_row(), column + 1);
}

std::optional<std::size_t> find_column_if(const std::vector<std::string>& names, const std::string& given) {
  const auto found = std::ranges::find(names, given);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::int64_t position = 0;
  const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), position);
  if (problem != std::errc() || end != given.data() + given.size()) return std::nullopt;
  const auto count = static_cast<std::int64_t>(names.size());
  if (position < -count || position >= count) return std::nullopt;
  return static_cast<std::size_t>(position < 0 ? position + count : position);
}

std::size_t find_column(const std::vector<std::string>& names, const std::string& given, const std::string& path) {
  if (const auto found = find_column_if(names, given)) return *found;
  constexpr std::size_t kMostListed = 20;
  fail<InvalidArgument>("{} has no column '{}'{}; it has: {}{}", path, given, did_you_mean(given, names),
                        fmt::join(std::span(names).first(std::min(names.size(), kMostListed)), ", "),
                        names.size() > kMostListed ? ", ..." : "");
}

}  // namespace trireme::data
