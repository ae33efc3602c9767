#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "cluster/protocol.h"

namespace trireme::master {

/// Sums up what the workers report: the current state of the job for people, and one row of metrics per `log_every`
/// steps. A value: the caller passes the time.
class MetricsAggregator {
 public:
  using Time = Deadline::Clock::time_point;

  MetricsAggregator() = default;
  MetricsAggregator(const cluster::Plan& plan, std::uint32_t workers, Time start);

  void add(Rank worker, const cluster::WorkDone& work, Time now);

  /// Sets the clocks of all workers at one moment, as a server knows them. Workers' own reports arrive at different
  /// moments, so their differences would show the delay of reports, not of workers. Without servers workers are in
  /// step, and the furthest report is the clock of all.
  void set_clocks(const cluster::ClockReport& report);

  /// Removes `worker`; the spread of clocks is that of the others.
  void leave(Rank worker);

  /// Completes the current row, unless it is empty.
  void close_row(Time now);

  /// Returns the rows completed since the last call.
  std::vector<MetricsRow> take_rows();

  MetricsRow now(Time now) const;
  const std::map<std::string, double>& averages() const { return averages_; }  ///< by name, as last reported
  Step spread_max() const { return spread_max_; }
  std::vector<Step> clocks() const;

  /// Returns the recent time of `worker` for a lane; 0 = not known.
  double lane_seconds(Rank worker) const { return worker < lane_seconds_.size() ? lane_seconds_[worker] : 0; }

 private:
  struct Sums {
    std::uint64_t samples = 0;
    double loss = 0;
    double correct = 0;
    void add(const cluster::WorkDone& work);
  };
  struct Recent {
    Time time;
    Sums sums;
  };

  MetricsRow row(const Sums& sums, double over_seconds, Time now) const;

  cluster::Plan plan_;
  Time start_{};
  std::vector<Step> clocks_;  // by worker, as reported by a server
  bool clocks_told_ = false;  // by a server
  std::vector<bool> left_;
  std::vector<double> lane_seconds_;  // by worker
  Step spread_max_ = 0;
  Step reported_step_ = 0;     // the largest step that a worker has reported itself
  std::uint64_t samples_ = 0;  // since the start
  double lr_ = 0;
  std::map<std::string, double> averages_;
  Sums row_sums_;  // since the last row
  Time row_start_{};
  std::deque<Recent> recent_;  // the last seconds, for the current rate and loss
  std::vector<MetricsRow> rows_;
};

}  // namespace trireme::master
