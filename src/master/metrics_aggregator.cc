#include "master/metrics_aggregator.h"

#include <algorithm>
#include <limits>

namespace trireme::master {
namespace {

constexpr auto kRecently = 3s;
constexpr double kForget = 0.2;  // the weight of a new measurement
constexpr std::uint32_t kMostWorkers = 1u << 16;
constexpr std::size_t kMostAverages = 32;  // names; a line with more would be unreadable

}  // namespace

MetricsAggregator::MetricsAggregator(const cluster::Plan& plan, std::uint32_t workers, Time start)
    : plan_(plan), start_(start), clocks_(workers, 0), left_(workers, false), rows_(plan) {
  counters_.step_s.bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
}

void MetricsAggregator::Sums::add(const cluster::WorkDone& work) {
  samples += work.samples;
  loss += work.loss_sum;
  trireme::add(metrics, work.metrics);
}

void MetricsAggregator::add(cluster::MemberId member, std::uint32_t worker, const cluster::WorkDone& work, Time now) {
  if (clocks_.empty() || worker >= kMostWorkers) return;  // no plan yet; no job has that many
  if (worker >= left_.size()) {                           // it joined later
    left_.resize(worker + 1, false);
    if (!clocks_told_) clocks_.resize(worker + 1, 0);
  }
  left_[worker] = false;
  if (work.lanes > 0) {
    lane_seconds_.resize(std::max<std::size_t>(lane_seconds_.size(), worker + 1), 0.0);
    const double fresh = work.busy_s / static_cast<double>(work.lanes);
    double& known = lane_seconds_[worker];
    known = known > 0 ? kForget * fresh + (1 - kForget) * known : fresh;
  }
  note_own(worker, work, now);
  const bool advanced = work.clock > reported_step_;
  if (advanced) count_steps(work.clock - reported_step_, now);
  reported_step_ = std::max(reported_step_, work.clock);
  lr_ = work.lr;
  for (const auto& [name, value] : work.averages) {
    if (averages_.size() < kMostAverages || averages_.contains(name)) averages_[name] = value;
  }
  rows_.add(member, work.rows);
  rows_.complete(clocks_of_workers());
  if (work.samples == 0 && !advanced) return;
  samples_ += work.samples;
  Sums sums;
  sums.add(work);
  recent_.push_back({now, reported_step_, sums});
  while (recent_.size() > 1 && now - recent_.front().time > kRecently) recent_.pop_front();
}

void MetricsAggregator::note_own(std::uint32_t worker, const cluster::WorkDone& work, Time now) {
  Reported& own = reported_[worker];
  own.clock = work.clock;
  own.phases.resize(std::max(own.phases.size(), work.phases.size()), 0.0);
  for (std::size_t phase = 0; phase < work.phases.size(); ++phase) own.phases[phase] += work.phases[phase];
  counters_.samples += work.samples;
  if (work.samples > 0) own.samples.emplace_back(now, work.samples);
  while (own.samples.size() > 1 && now - own.samples.front().first > kRecently) own.samples.pop_front();
}

/// Reports come ten times a second: of steps that are shorter the mean of those in between counts.
void MetricsAggregator::count_steps(Step made, Time now) {
  counters_.steps += made;
  if (last_advance_ != Time{}) counters_.step_s.add(seconds(now - last_advance_) / static_cast<double>(made), made);
  last_advance_ = now;
}

void MetricsAggregator::describe(std::uint32_t worker, Time now, cluster::MemberStatus& status) const {
  status.lane_s = lane_seconds(worker);
  const auto found = reported_.find(worker);
  if (found == reported_.end()) return;
  const Reported& own = found->second;
  status.clock = own.clock;
  status.phases = own.phases;
  if (own.samples.size() < 2) return;
  std::uint64_t samples = 0;
  for (const auto& [time, count] : own.samples) samples += count;
  // The first of them was made before the time that is looked at.
  const double over_s = seconds(now - own.samples.front().first);
  if (over_s > 0) status.samples_per_s = static_cast<double>(samples - own.samples.front().second) / over_s;
}

const std::vector<MetricsRow>& MetricsAggregator::rows_after(const cluster::RowsTaken& taken) {
  rows_.taken(taken);
  rows_.complete(clocks_of_workers());
  return rows_.due();
}

void MetricsAggregator::set_clocks(const cluster::ClockReport& report) {
  if (!report.clocks.empty()) {  // of the present view, which may have another number of workers
    clocks_ = report.clocks;
    clocks_told_ = true;
  }
  spread_max_ = std::max(spread_max_, report.spread_max);
}

void MetricsAggregator::leave(std::uint32_t worker) {
  if (worker < left_.size()) left_[worker] = true;
  if (worker < lane_seconds_.size()) lane_seconds_[worker] = 0;  // its successor may be faster
  if (const auto own = reported_.find(worker); own != reported_.end()) own->second.samples.clear();
}

std::vector<Step> MetricsAggregator::clocks() const {
  return clocks_told_ ? clocks_ : std::vector<Step>(clocks_.size(), reported_step_);
}

double MetricsAggregator::steps_per_s(Time now) const {
  if (recent_.empty()) return 0;
  const double over_s = seconds(now - recent_.front().time);
  return over_s > 0 ? static_cast<double>(recent_.back().step - recent_.front().step) / over_s : 0;
}

/// Of those who take part.
MetricsRows::Clocks MetricsAggregator::clocks_of_workers() const {
  MetricsRows::Clocks result{.min = ~Step{0}};
  const std::vector<Step> all = clocks();
  for (std::size_t worker = 0; worker < all.size(); ++worker) {
    result.max = std::max(result.max, all[worker]);
    const bool left = all.size() == left_.size() && left_[worker];
    if (!left) result.min = std::min(result.min, all[worker]);
  }
  result.min = std::min(result.min, result.max);
  return result;
}

MetricsRow MetricsAggregator::now(Time now) const {
  Sums sums;
  for (const Recent& moment : recent_)
    sums.add({.samples = moment.sums.samples, .loss_sum = moment.sums.loss, .metrics = moment.sums.metrics});
  const Time since = recent_.empty() ? start_ : std::max(start_, recent_.front().time - 100ms);
  const double over_s = seconds(now - since);
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto samples = static_cast<double>(sums.samples);
  const MetricsRows::Clocks spread = clocks_of_workers();
  // Samples alone would never reach the last step, since the last batch of an epoch may be smaller.
  const Step step = plan_.leased ? samples_ / std::max<std::uint64_t>(1, plan_.batch) : reported_step_;
  return {.step = step,
          .epoch = static_cast<double>(step) / static_cast<double>(std::max<Step>(1, plan_.steps_per_epoch)),
          .samples = samples_,
          .loss = sums.samples > 0 ? sums.loss / samples : nan,
          .metrics = values_of(sums.metrics),
          .samples_per_s = over_s > 0 ? samples / over_s : 0,
          .lr = lr_,
          .clock_min = plan_.leased ? spread.min : step,
          .clock_max = plan_.leased ? spread.max : step,
          .seconds = seconds(now - start_)};
}

}  // namespace trireme::master
