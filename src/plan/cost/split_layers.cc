#include "plan/cost/split_layers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace trireme::plan {

std::vector<std::size_t> split_layers(std::span<const double> costs, std::size_t stages) {
  const std::size_t layers = costs.size();
  if (stages < 1 || stages > layers) {
    fail<InvalidArgument>("{} layers cannot be cut into {} stages: at least one and at most {}", layers, stages,
                          layers);
  }
  std::vector<double> until(layers + 1, 0);  // the cost of all layers before
  for (std::size_t i = 0; i < layers; ++i) {
    if (!std::isfinite(costs[i]) || costs[i] < 0) fail<InvalidArgument>("layer {} costs {}", i, costs[i]);
    until[i + 1] = until[i] + costs[i];
  }
  // best[k][i]: the most expensive stage, then the sum of squares, when layers i.. are cut into k; cut[k][i]: where the
  // first of them ends. Of equal cuts the longest first stage is taken.
  using Quality = std::pair<double, double>;
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<Quality>> best(stages + 1, std::vector<Quality>(layers + 1, {never, never}));
  std::vector<std::vector<std::size_t>> cut(stages + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][layers] = {0, 0};
  for (std::size_t k = 1; k <= stages; ++k) {
    for (std::size_t i = 0; i + k <= layers; ++i) {
      for (std::size_t end = i + 1; end + (k - 1) <= layers; ++end) {
        const double first = until[end] - until[i];
        if (first > best[k][i].first) break;  // only longer from here on
        const auto& [most, squares] = best[k - 1][end];
        const Quality quality{std::max(first, most), first * first + squares};
        if (quality <= best[k][i]) {
          best[k][i] = quality;
          cut[k][i] = end;
        }
      }
    }
  }
  std::vector<std::size_t> begins;
  for (std::size_t i = 0, k = stages; k > 0; --k) {
    begins.push_back(i);
    i = cut[k][i];
  }
  return begins;
}

}  // namespace trireme::plan
