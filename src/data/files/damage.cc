#include "data/files/damage.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/files/shards.h"
#include "data/open/kind.h"
#include "data/open/source.h"
#include "data/tables/rows.h"

namespace trireme::data {
namespace {

constexpr std::int64_t kMostClassesChecked = 65536;

/// Runs `body`; what is wrong with a file is told and counted, and false returned.
template <typename Body>
bool succeeds(DamageReport& report, const std::function<void(const std::string&)>& tell, const Body& body) {
  try {
    body();
    return true;
  } catch (const Corrupt& problem) {
    tell(problem.what());
  } catch (const IoError& problem) {
    tell(problem.what());
  }
  ++report.damaged;
  return false;
}

void read_everything(const Dataset& samples, DamageReport& report,
                     const std::function<void(const std::string&)>& tell) {
  constexpr std::uint64_t kTogether = 64;
  Batch batch;
  std::vector<std::uint64_t> rows;
  for (std::uint64_t first = 0; first < samples.size(); first += rows.size()) {
    rows.resize(static_cast<std::size_t>(std::min(kTogether, samples.size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    try {
      samples.read(rows, batch);
      report.samples += rows.size();
    } catch (const Error&) {  // some of them: one by one
      for (const std::uint64_t row : rows) {
        if (succeeds(report, tell, [&] { samples.read(std::span(&row, 1), batch); })) ++report.samples;
      }
    }
  }
}

/// A table is read as a whole, and refused at the first row that is wrong; so rows are looked at here first.
void check_rows(const Located& located, DamageReport& report, const std::function<void(const std::string&)>& tell) {
  const std::vector<std::filesystem::path> files = expand(located.files);
  std::optional<TableRows> rows;
  const bool opened = succeeds(report, tell, [&] {
    rows.emplace(files, find_separator(files.front()), CsvHeader::kDetect, std::uint64_t{1} << 40);
  });
  std::string stuck_at;  // damage within a packed file does not go away
  for (bool more = opened; more;) {
    if (succeeds(report, tell, [&] { more = rows->next(); })) continue;
    more = rows->at_row() != stuck_at;
    stuck_at = rows->at_row();
  }
}

}  // namespace

DamageReport find_damage(const std::string& spec, const OpenOptions& options,
                         const std::function<void(const std::string&)>& tell) {
  DamageReport report;
  const Located located = locate(spec);
  if (located.kind == SourceKind::kTable) check_rows(located, report, tell);
  if (report.damaged > 0) return report;
  Source source;
  OpenOptions asked = options;
  // Counting classes would stop at the first damage.
  if (asked.classes == 0 && located.kind != SourceKind::kTable) asked.classes = kMostClassesChecked;
  if (!succeeds(report, tell, [&] { source = open_source(spec, asked); })) return report;
  read_everything(*source.samples, report, tell);
  if (source.test) read_everything(*source.test, report, tell);
  return report;
}

}  // namespace trireme::data
