#include "observe/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::observe {
namespace {

constexpr double kSmallest = 1e-12;
constexpr double kLargest = 1e20;
constexpr double kGrowth = 1.1;

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = kSmallest; limit < kLargest; limit *= kGrowth) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

}  // namespace

Histogram histogram_of(std::span<const float> values) {
  static const std::vector<double> kLimits = make_limits();
  Histogram histogram{.min = std::numeric_limits<double>::max(), .max = std::numeric_limits<double>::lowest()};
  std::vector<double> counts(kLimits.size(), 0);
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++histogram.not_finite;
      continue;
    }
    const double number = value;
    histogram.min = std::min(histogram.min, number);
    histogram.max = std::max(histogram.max, number);
    histogram.sum += number;
    histogram.sum_squares += number * number;
    ++histogram.count;
    const auto bucket = std::ranges::upper_bound(kLimits, number);
    ++counts[std::min<std::size_t>(static_cast<std::size_t>(bucket - kLimits.begin()), counts.size() - 1)];
  }
  if (histogram.count == 0) return {.not_finite = histogram.not_finite};
  const auto filled = [](double count) { return count > 0; };
  const auto first = std::ranges::find_if(counts, filled) - counts.begin();
  const auto end = std::find_if(counts.rbegin(), counts.rend(), filled).base() - counts.begin();
  const auto from = std::max<std::ptrdiff_t>(0, first - 1);  // where the first bucket begins
  histogram.limits.assign(kLimits.begin() + from, kLimits.begin() + end);
  histogram.counts.assign(counts.begin() + from, counts.begin() + end);
  return histogram;
}

}  // namespace trireme::observe
