#include "cli/numbers.h"

#include <cmath>

namespace trireme::cli {

std::string describe(const Limits& limits, bool whole) {
  const auto shown = [&](double number) { return whole ? fmt::format("{:.0f}", number) : fmt::format("{}", number); };
  const std::string what = whole ? "a whole number" : "a number";
  const std::string from = fmt::format("{} {}", limits.above ? "above" : "from", shown(limits.least));
  if (std::isinf(limits.most)) return fmt::format("{} {}{}", what, from, limits.above ? "" : " on");
  return fmt::format("{} {}{} {}", what, from, limits.below ? " and below" : " to", shown(limits.most));
}

}  // namespace trireme::cli
