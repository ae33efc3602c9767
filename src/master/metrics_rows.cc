#include "master/metrics_rows.h"

#include <algorithm>
#include <limits>

namespace trireme::master {
namespace {

// A row that lacks a part is given up when this many after it are whole. Asynchronous workers may be far apart.
constexpr std::ptrdiff_t kRowsAhead = 1;
constexpr std::ptrdiff_t kRowsAheadLeased = 8;

}  // namespace

MetricsRows::MetricsRows(const cluster::Plan& plan) : plan_(plan) {
  plan_.log_every = std::max<Step>(1, plan_.log_every);
}

void MetricsRows::add(cluster::MemberId member, const std::vector<cluster::RowPart>& parts) {
  for (const cluster::RowPart& part : parts) {
    if (part.steps == 0 || part.last / plan_.log_every != part.row || part.lane >= plan_.lanes) continue;  // nonsense
    if (part.last < taken_.up_to) continue;
    if (!due_.empty() && part.last < due_.back().step) continue;
    begin_ = std::min(begin_, part.first);
    open_[part.row][{part.lane, member}] = part;
  }
}

void MetricsRows::taken(const cluster::RowsTaken& rows) {
  if (!rows.known) return;
  if (rows.back_in > taken_.back_in || rows.up_to < taken_.up_to) {
    open_.clear();
    due_.clear();
    begin_ = ~Step{0};
  }
  taken_ = rows;
  std::erase_if(due_, [&](const MetricsRow& row) { return row.step <= rows.up_to; });
}

void MetricsRows::complete(const Clocks& clocks) {
  while (!open_.empty()) {
    const auto& [number, parts] = *open_.begin();
    if (!whole(number, parts) && !overtaken(number) && !(taken_.ended && taken_.give_up)) return;
    MetricsRow row = make_row(number, parts);
    row.clock_min = plan_.leased ? clocks.min : row.step;
    row.clock_max = plan_.leased ? clocks.max : row.step;
    due_.push_back(row);
    last_row_ = row.time;
    open_.erase(open_.begin());
  }
}

/// The steps of `row` end before this one.
Step MetricsRows::end_of(Step row) const {
  Step end = first_of(row + 1);
  if (plan_.steps > 0) end = std::min(end, plan_.steps);
  if (taken_.ended) end = std::min(end, std::max(taken_.last_step, first_of(row) + 1));
  return end;
}

bool MetricsRows::whole(Step row, const Parts& parts) const {
  std::map<Lane, Step> steps;
  for (const auto& [key, part] : parts) steps[part.lane] += part.steps;
  const Step wanted = end_of(row) - std::max(first_of(row), std::min(begin_, end_of(row)));
  return steps.size() == plan_.lanes &&
         std::ranges::all_of(steps, [&](const auto& lane) { return lane.second >= wanted; });
}

bool MetricsRows::overtaken(Step row) const {
  const auto ahead = std::ranges::count_if(
      open_, [&](const auto& other) { return other.first > row && whole(other.first, other.second); });
  return ahead >= (plan_.leased ? kRowsAheadLeased : kRowsAhead);
}

/// Sums in the order of lanes, so that the bits do not depend on who reported first.
MetricsRow MetricsRows::make_row(Step row, const Parts& parts) const {
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  std::uint64_t samples = 0;
  double loss = 0;
  Metrics metrics;
  const cluster::RowPart* newest = &parts.begin()->second;
  double began = newest->began;
  double ended = newest->ended;
  for (const auto& [key, part] : parts) {
    samples += part.samples;
    loss += part.loss_sum;
    trireme::add(metrics, part.metrics);
    began = std::min(began, part.began);
    ended = std::max(ended, part.ended);
    if (part.last > newest->last) newest = &part;
  }
  ended = std::max(ended, last_row_);  // the clocks of two hosts may differ
  const double interval = ended - (last_row_ > 0 ? last_row_ : began);
  const auto count = static_cast<double>(samples);
  const Step step = std::max(newest->last + 1, whole(row, parts) ? end_of(row) : 0);
  return {.step = step,
          .epoch = static_cast<double>(step) / static_cast<double>(std::max<Step>(1, plan_.steps_per_epoch)),
          .samples = plan_.samples_in(step),
          .loss = samples > 0 ? loss / count : nan,
          .metrics = values_of(metrics),
          .samples_per_s = interval > 0 ? count / interval : 0,
          .lr = newest->lr,
          .time = ended,
          .interval_s = interval};
}

}  // namespace trireme::master
