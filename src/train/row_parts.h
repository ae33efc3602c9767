#pragma once

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "cluster/protocol.h"
#include "train/compute/lane_computer.h"

namespace trireme {

/// What this worker has computed for rows of metrics that the chief has not got yet. Used by the training thread.
class RowParts {
 public:
  /// A row for every `log_every` steps.
  explicit RowParts(Step log_every) : log_every_(std::max<Step>(1, log_every)) {}

  /// Adds what the lanes from `first` on gave in `step`, which began and ended at these times since 1970.
  void add(Step step, Lane first, const std::vector<LaneStatistics>& lanes, double lr, double began, double ended);

  /// The chief has the rows up to `step`.
  void forget(Step step);

  /// The steps made so far are made again.
  void clear() { parts_.clear(); }

  std::vector<cluster::RowPart> all() const;

 private:
  Step log_every_;
  std::map<std::pair<Step, Lane>, cluster::RowPart> parts_;  // by row and lane
};

}  // namespace trireme
