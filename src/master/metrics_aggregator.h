#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "cluster/protocol.h"
#include "master/metrics_rows.h"

namespace trireme::master {

/// Sums up what the workers report: the current state of the job for people, and rows of metrics. A value: the caller
/// passes the time.
class MetricsAggregator {
 public:
  using Time = Deadline::Clock::time_point;

  MetricsAggregator() = default;
  MetricsAggregator(const cluster::Plan& plan, std::uint32_t workers, Time start);

  /// Takes the report of `member`, who is the worker of this number.
  void add(cluster::MemberId member, std::uint32_t worker, const cluster::WorkDone& work, Time now);

  /// Sets the clocks of all workers at one moment, as a server knows them. Workers' own reports arrive at different
  /// moments, so their differences would show the delay of reports, not of workers. Without servers workers are in
  /// step, and the furthest report is the clock of all.
  void set_clocks(const cluster::ClockReport& report);

  /// Removes `worker`; the spread of clocks is that of the others.
  void leave(std::uint32_t worker);

  /// Takes what the chief says about rows, and returns those that it has not got.
  const std::vector<MetricsRow>& rows_after(const cluster::RowsTaken& taken);
  Step rows_taken() const { return rows_.rows_taken(); }

  MetricsRow now(Time now) const;
  double steps_per_s(Time now) const;                                          ///< over the last moments
  const std::map<std::string, double>& averages() const { return averages_; }  ///< by name, as last reported
  Step spread_max() const { return spread_max_; }
  std::vector<Step> clocks() const;

  /// Returns the recent time of `worker` for a lane; 0 = not known.
  double lane_seconds(std::uint32_t worker) const { return worker < lane_seconds_.size() ? lane_seconds_[worker] : 0; }

  /// Fills in what `worker` itself has reported.
  void describe(std::uint32_t worker, Time now, cluster::MemberStatus& status) const;

  /// Returns the steps and samples of all workers, and how long steps took.
  const cluster::JobCounters& counters() const { return counters_; }

 private:
  struct Sums {
    std::uint64_t samples = 0;
    double loss = 0;
    Metrics metrics;
    void add(const cluster::WorkDone& work);
  };
  struct Recent {
    Time time;
    Step step = 0;
    Sums sums;
  };

  /// One worker's own reports.
  struct Reported {
    Step clock = 0;
    std::vector<double> phases;
    std::deque<std::pair<Time, std::uint64_t>> samples;  // of the last seconds
  };

  MetricsRows::Clocks clocks_of_workers() const;
  void note_own(std::uint32_t worker, const cluster::WorkDone& work, Time now);
  void count_steps(Step made, Time now);

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
  MetricsRows rows_;
  std::deque<Recent> recent_;                   // the last seconds, for the current rate and loss
  std::map<std::uint32_t, Reported> reported_;  // by worker
  cluster::JobCounters counters_;
  Time last_advance_{};  // when the furthest step was reported
};

}  // namespace trireme::master
