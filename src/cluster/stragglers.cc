#include "cluster/stragglers.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::cluster {
namespace {

constexpr double kHysteresis = 0.85;
constexpr double kWorthIt = 1.15;  // a change of view costs about a step

double step_seconds(std::span<const LaneRange> dealt, std::span<const double> lane_seconds) {
  double longest = 0;
  for (std::size_t rank = 0; rank < dealt.size(); ++rank) {
    longest = std::max(longest, dealt[rank].count * lane_seconds[rank]);
  }
  return longest;
}

}  // namespace

std::vector<Straggler> find_stragglers(std::span<const LanePace> paces, std::span<const Straggler> known, double from) {
  std::vector<double> times;
  for (const LanePace& pace : paces) {
    if (pace.seconds > 0) times.push_back(pace.seconds);
  }
  if (times.size() < 2) return {};
  std::ranges::sort(times);
  const double median = times[(times.size() - 1) / 2];
  std::vector<Straggler> found;
  for (const LanePace& pace : paces) {
    const bool was = std::ranges::find(known, pace.slot, &Straggler::slot) != known.end();
    const double factor = pace.seconds / median;
    if (factor >= (was ? kHysteresis * from : from)) found.push_back({.slot = pace.slot, .factor = factor});
  }
  return found;
}

std::string describe(std::span<const Straggler> stragglers) {
  std::string text;
  for (const Straggler& straggler : stragglers) {
    text += fmt::format("{}worker {} ({:.1f} times the median)", text.empty() ? "" : ", ", straggler.slot,
                        straggler.factor);
  }
  return text;
}

std::vector<double> better_costs(Lane lanes, std::span<const LaneRange> dealt, std::span<const double> lane_seconds) {
  const auto unknown = [](double seconds) { return seconds <= 0; };
  if (dealt.size() != lane_seconds.size() || std::ranges::any_of(lane_seconds, unknown)) return {};
  const double now = step_seconds(dealt, lane_seconds);
  const double then = step_seconds(deal_lanes(lanes, lane_seconds), lane_seconds);
  if (now < kWorthIt * then) return {};
  return {lane_seconds.begin(), lane_seconds.end()};
}

}  // namespace trireme::cluster
