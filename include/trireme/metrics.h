#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/types.h"

namespace trireme {

/// How a sum and a count become the number that people read.
enum class MetricForm {
  kMean,  ///< sum / count: accuracy, an error per sample
  kRoot,  ///< its square root: rmse, from squared errors
  kExp,   ///< e to the power of it: perplexity, from losses
};

/// A named quantity over some samples. A sum and a count combine exactly over lanes, workers and batches; means do not.
struct Metric {
  std::string name = {};
  double sum = 0;
  double count = 0;
  MetricForm form = MetricForm::kMean;

  double value() const;  ///< NaN if nothing was counted
};

/// In the order in which a task gives them: the first one is the most telling.
using Metrics = std::vector<Metric>;

/// Adds to those of the same names.
void add(Metrics& to, const Metrics& more);

/// What people read.
struct NamedValue {
  std::string name = {};
  double value = 0;

  bool operator==(const NamedValue&) const = default;
};

std::vector<NamedValue> values_of(const Metrics& metrics);

/// The value of this name; NaN if there is none.
double find_value(const std::vector<NamedValue>& values, std::string_view name);

/// Returns `accuracy 87.34 %`, `rmse 0.8731`: shares of samples as percentages, all else as it is.
std::string describe(const NamedValue& value);

/// A bar that a metric should reach: `accuracy>=0.9`, `rmse<=0.89`, `loss<=0.1`.
struct Goal {
  std::string metric = {};
  bool at_least = true;  ///< else at most
  double value = 0;

  /// Throws InvalidArgument that shows what a goal looks like.
  static Goal parse(const std::string& text);

  bool reached(double now) const { return at_least ? now >= value : now <= value; }
  std::string describe() const;
};

/// One line of metrics over all workers. The rows of two runs that compute the same are the same, but for their times
/// and speeds.
struct MetricsRow {
  Step step = 0;  ///< steps made; loss and metrics are those of the steps since the row before, or since a resume
  double epoch = 0;
  std::uint64_t samples = 0;  ///< since the beginning of the run
  double loss = 0;
  std::vector<NamedValue> metrics = {};  ///< of the task: accuracy, ...
  double samples_per_s = 0;              ///< since the row before
  double lr = 0;
  Step clock_min = 0;
  Step clock_max = 0;
  double time = 0;        ///< when its last step was made: seconds since 1970
  double interval_s = 0;  ///< since the row before
  double seconds = 0;     ///< of training, since the beginning of the run

  double metric(std::string_view name) const { return find_value(metrics, name); }  ///< NaN if there is none
};

}  // namespace trireme
