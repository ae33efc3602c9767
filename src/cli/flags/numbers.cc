#include "cli/flags/numbers.h"

#include <cmath>

namespace trireme::cli {

std::string describe(const Limits& limits, bool whole) {
  const auto shown = [&](double number) { return whole ? fmt::format("{:.0f}", number) : fmt::format("{}", number); };
  const std::string what = whole ? "a whole number" : "a finite number";
  const std::string from = fmt::format("{} {}", limits.above ? "above" : "from", shown(limits.least));
  if (std::isinf(limits.most)) return fmt::format("{} {}{}", what, from, limits.above ? "" : " on");
  return fmt::format("{} {}{} {}", what, from,
                     limits.below   ? ", below"
                     : limits.above ? ", up to"
                                    : " to",
                     shown(limits.most));
}

void refuse_number(const std::string& flag, const std::string& text, const std::string& allowed) {
  fail<InvalidArgument>("{} {}: it takes {}", flag, text.empty() ? "''" : text, allowed);
}

}  // namespace trireme::cli
