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
    : plan_(plan), start_(start), clocks_(workers, 0), left_(workers, false), row_start_(start) {}

void MetricsAggregator::Sums::add(const cluster::WorkDone& work) {
  samples += work.samples;
  loss += work.loss_sum;
  correct += work.correct;
}

void MetricsAggregator::add(Rank worker, const cluster::WorkDone& work, Time now) {
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
  reported_step_ = std::max(reported_step_, work.clock);
  lr_ = work.lr;
  for (const auto& [name, value] : work.averages) {
    if (averages_.size() < kMostAverages || averages_.contains(name)) averages_[name] = value;
  }
  if (work.samples == 0) return;
  samples_ += work.samples;
  row_sums_.add(work);
  Sums sums;
  sums.add(work);
  recent_.push_back({now, sums});
  while (recent_.size() > 1 && now - recent_.front().time > kRecently) recent_.pop_front();
  if (row_sums_.samples >= plan_.log_every * plan_.batch) close_row(now);
}

void MetricsAggregator::close_row(Time now) {
  if (row_sums_.samples == 0) return;
  rows_.push_back(row(row_sums_, seconds(now - row_start_), now));
  row_sums_ = {};
  row_start_ = now;
}

void MetricsAggregator::set_clocks(const cluster::ClockReport& report) {
  if (!report.clocks.empty() && report.clocks.size() == clocks_.size()) {
    clocks_ = report.clocks;
    clocks_told_ = true;
  }
  spread_max_ = std::max(spread_max_, report.spread_max);
}

void MetricsAggregator::leave(Rank worker) {
  if (worker < left_.size()) left_[worker] = true;
  if (worker < lane_seconds_.size()) lane_seconds_[worker] = 0;  // its successor may be faster
}

std::vector<Step> MetricsAggregator::clocks() const {
  return clocks_told_ ? clocks_ : std::vector<Step>(clocks_.size(), reported_step_);
}

std::vector<MetricsRow> MetricsAggregator::take_rows() { return std::exchange(rows_, {}); }

MetricsRow MetricsAggregator::now(Time now) const {
  Sums sums;
  for (const Recent& moment : recent_)
    sums.add({.samples = moment.sums.samples, .loss_sum = moment.sums.loss, .correct = moment.sums.correct});
  const Time since = recent_.empty() ? start_ : std::max(start_, recent_.front().time - 100ms);
  return row(sums, seconds(now - since), now);
}

MetricsRow MetricsAggregator::row(const Sums& sums, double over_seconds, Time now) const {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto samples = static_cast<double>(sums.samples);
  MetricsRow row{.samples = samples_,
                 .loss = sums.samples > 0 ? sums.loss / samples : nan,
                 .accuracy = sums.samples > 0 && sums.correct >= 0 ? sums.correct / samples : nan,
                 .samples_per_s = over_seconds > 0 ? samples / over_seconds : 0,
                 .lr = lr_,
                 .seconds = seconds(now - start_)};
  const Step per_epoch = std::max<Step>(1, plan_.steps_per_epoch);
  Step slowest = ~Step{0};
  const std::vector<Step> all_clocks = clocks();
  for (std::size_t worker = 0; worker < all_clocks.size(); ++worker) {
    row.clock_max = std::max(row.clock_max, all_clocks[worker]);
    if (worker >= left_.size() || !left_[worker]) slowest = std::min(slowest, all_clocks[worker]);
  }
  row.clock_min = slowest == ~Step{0} ? row.clock_max : slowest;
  // Samples alone would never reach the last step, since the last batch of an epoch may be smaller.
  row.step = plan_.leased ? samples_ / std::max<std::uint64_t>(1, plan_.batch) : reported_step_;
  row.epoch = static_cast<double>(row.step) / static_cast<double>(per_epoch);
  return row;
}

}  // namespace trireme::master
