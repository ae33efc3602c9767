#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>

#include "trireme/types.h"

#include "observe/metrics_file.h"
#include "observe/run_folder.h"
#include "observe/tensorboard.h"

namespace trireme::dist {

/// What a row has beside the values that a loop reports.
inline constexpr std::array kFieldsOfRows{"kind", "step", "strategy", "time"};

/// What a loop of the user's own reports of itself, in the files of its run: rows of metrics.jsonl, and curves for
/// TensorBoard. The chief has one. Not thread-safe.
class LoopReports {
 public:
  /// Rows of step `first` and later ones, which a former chief or launch wrote, are dropped: those steps are made
  /// again. Where the files cannot be opened (a former chief that is suspended may hold them) this is logged, and
  /// nothing is written.
  LoopReports(const observe::RunFolder& folder, Step first);

  /// Adds a row. Steps must go up: a value that is reported of a step again, or of an earlier one, is left out.
  void add(const std::map<std::string, double>& values, Step step);

 private:
  std::optional<observe::MetricsFile> rows_;
  std::optional<observe::EventFile> curves_;
  std::map<std::string, Step> last_;  // of each value
};

}  // namespace trireme::dist
