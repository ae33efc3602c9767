#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cluster/protocol.h"

namespace trireme::master {

/// Puts rows of metrics together from the parts that workers report: one row per `log_every` steps, the same whoever
/// computed which lane and whenever reports arrive. Parts are sent again until the chief has the row, so a new master
/// needs to know nothing. A value.
class MetricsRows {
 public:
  /// The clocks of the slowest and the fastest worker at the moment; of asynchronous jobs only.
  struct Clocks {
    Step min = 0;
    Step max = 0;
  };

  MetricsRows() = default;
  explicit MetricsRows(const cluster::Plan& plan);

  /// Takes all that `member` holds of rows that the chief has not got; replaces what it reported before.
  void add(cluster::MemberId member, const std::vector<cluster::RowPart>& parts);

  /// Takes what the chief has got. If that is less than before, training has gone back to a checkpoint.
  void taken(const cluster::RowsTaken& rows);

  /// Completes rows, in order: those all of whose parts are there, and those that lack some which will not come,
  /// because a worker died before it reported them.
  void complete(const Clocks& clocks);

  /// The complete rows that the chief has not got.
  const std::vector<MetricsRow>& due() const { return due_; }
  Step rows_taken() const { return taken_.up_to; }

 private:
  using Parts = std::map<std::pair<Lane, cluster::MemberId>, cluster::RowPart>;

  Step first_of(Step row) const { return row * plan_.log_every; }
  Step end_of(Step row) const;
  bool whole(Step row, const Parts& parts) const;
  bool overtaken(Step row) const;
  MetricsRow make_row(Step row, const Parts& parts) const;

  cluster::Plan plan_;
  std::map<Step, Parts> open_;  // by row
  Step begin_ = ~Step{0};       // the first step that anybody has reported
  cluster::RowsTaken taken_;
  std::vector<MetricsRow> due_;
  double last_row_ = 0;  // when its last step was made; 0 = there is none
};

}  // namespace trireme::master
