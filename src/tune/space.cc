#include "tune/space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/random.h"
#include "base/suggest.h"

namespace trireme::tune {
namespace {

constexpr const char* kExample = "such as lr=log:1e-4:1e-1,batch=32|64";
constexpr std::uint64_t kMostCombinations = 1'000'000;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [stopped, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole_text = problem == std::errc() && stopped == text.data() + text.size();
  return whole_text && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Dimension parse_range(const std::string& part, const KnownFlag& flag, const std::vector<std::string>& words) {
  Dimension dimension{.flag = flag.name, .kind = Dimension::Kind::kLinear, .whole = flag.whole};
  if (words[0] == "log") dimension.kind = Dimension::Kind::kLog;
  if (!flag.number) fail<InvalidArgument>("--space {}: --{} takes no numbers; give choices, a|b|c", part, flag.name);
  const auto low = words.size() > 1 ? number_in(words[1]) : std::nullopt;
  const auto high = words.size() > 2 ? number_in(words[2]) : std::nullopt;
  const auto points = words.size() > 3 ? number_in(words[3]) : std::nullopt;
  if (!low || !high || words.size() > 4 || (words.size() == 4 && !points)) {
    fail<InvalidArgument>("--space {}: a range is {}:<from>:<to>, or {}:<from>:<to>:<how many values>", part, words[0],
                          words[0]);
  }
  if (!(*low < *high)) fail<InvalidArgument>("--space {}: the range has to begin below its end", part);
  if (dimension.kind == Dimension::Kind::kLog && !(*low > 0)) {
    fail<InvalidArgument>("--space {}: a logarithmic range begins above 0; use linear:", part);
  }
  if (points && (*points < 2 || *points > 10'000 || *points != std::floor(*points))) {
    fail<InvalidArgument>("--space {}: a range has a whole number of values, from 2 on", part);
  }
  dimension.low = *low;
  dimension.high = *high;
  dimension.points = points ? static_cast<std::uint32_t>(*points) : 0;
  return dimension;
}

Dimension parse_choices(const std::string& part, const KnownFlag& flag, const std::string& values) {
  Dimension dimension{.flag = flag.name, .choices = split(values, '|'), .whole = flag.whole};
  for (const std::string& choice : dimension.choices) {
    if (choice.empty()) fail<InvalidArgument>("--space {}: a choice is empty; give a|b|c", part);
    if (std::ranges::count(dimension.choices, choice) > 1) {
      fail<InvalidArgument>("--space {}: '{}' is there twice", part, choice);
    }
  }
  return dimension;
}

const KnownFlag& find_flag(const std::string& name, const std::vector<KnownFlag>& flags) {
  const auto found = std::ranges::find(flags, name, &KnownFlag::name);
  if (found == flags.end()) {
    std::vector<std::string> names;
    for (const KnownFlag& flag : flags) {
      if (flag.refused.empty()) names.push_back(flag.name);
    }
    fail<InvalidArgument>("--space {}: 'trireme train' has no flag --{}{}", name, name, did_you_mean(name, names));
  }
  if (!found->refused.empty()) fail<InvalidArgument>("--space {}: {}", name, found->refused);
  return *found;
}

Dimension parse_dimension(const std::string& part, const std::vector<KnownFlag>& flags) {
  const std::size_t equals = part.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == part.size()) {
    fail<InvalidArgument>("--space {}: expected <flag>=<values>, {}", part, kExample);
  }
  const std::size_t dashes = part.starts_with("--") ? 2 : 0;
  const std::string name = part.substr(dashes, equals - dashes);
  const KnownFlag& flag = find_flag(name, flags);
  const std::string values = part.substr(equals + 1);
  const std::vector<std::string> words = split(values, ':');
  if (words.size() > 1 && (words[0] == "log" || words[0] == "linear")) return parse_range(part, flag, words);
  return parse_choices(part, flag, values);
}

std::string digits(double value, bool whole) {
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

/// Returns how many values ranges without a number of them get, so that there are at most `most` combinations.
std::uint64_t points_of_ranges(const Space& space, std::uint64_t most) {
  std::uint64_t fixed = 1;
  std::uint32_t open = 0;
  for (const Dimension& dimension : space.dimensions) {
    fixed *= std::max<std::uint64_t>(1, dimension.size());
    if (dimension.size() == 0) ++open;
  }
  std::uint64_t points = 1;
  const auto combinations = [&](std::uint64_t n) { return static_cast<double>(fixed) * std::pow(n, open); };
  while (open > 0 && combinations(points + 1) <= static_cast<double>(most)) ++points;
  if (fixed > most || (open > 0 && points < 2)) {
    fail<InvalidArgument>(
        "--trials {}: the grid of this space has {} combinations at least; give as many trials, or "
        "fewer values",
        most, combinations(open > 0 ? 2 : 1));
  }
  return points;
}

std::vector<Values> latin_hypercube(const Space& space, std::uint64_t count, std::uint64_t seed) {
  std::vector<Values> trials(count);
  for (std::size_t d = 0; d < space.dimensions.size(); ++d) {
    const Dimension& dimension = space.dimensions[d];
    const std::vector<std::uint64_t> order = shuffled(count, seed, d);
    RandomStream random(mix_seed(seed, d, /*c=*/1));
    for (std::uint64_t i = 0; i < count; ++i) {
      const double share = (static_cast<double>(order[i]) + random.uniform()) / static_cast<double>(count);
      const std::uint64_t size = dimension.size();
      trials[i].emplace_back(dimension.flag, size == 0 ? dimension.at(share) : dimension.value(order[i] % size, size));
    }
  }
  return trials;
}

}  // namespace

std::string Dimension::at(double share) const {
  if (kind == Kind::kLog) return digits(std::exp(std::log(low) + share * (std::log(high) - std::log(low))), whole);
  return digits(low + share * (high - low), whole);
}

std::string Dimension::value(std::uint64_t i, std::uint64_t count) const {
  if (kind == Kind::kChoice) return choices[i];
  return at(count < 2 ? 0 : static_cast<double>(i) / static_cast<double>(count - 1));
}

std::uint64_t Space::size() const {
  std::uint64_t all = 1;
  for (const Dimension& dimension : dimensions) {
    const std::uint64_t size = dimension.size();
    if (size == 0 || all > kMostCombinations / size) return 0;  // too many to list is as good as any number
    all *= size;
  }
  return all;
}

Space parse_space(const std::vector<std::string>& texts, const std::vector<KnownFlag>& flags) {
  Space space;
  for (const std::string& text : texts) {
    for (const std::string& part : split(text, ',')) {
      Dimension dimension = parse_dimension(part, flags);
      if (std::ranges::count(space.dimensions, dimension.flag, &Dimension::flag) > 0) {
        fail<InvalidArgument>("--space {}: {} is in the space already", part, dimension.flag);
      }
      space.dimensions.push_back(std::move(dimension));
    }
  }
  if (space.dimensions.empty()) fail<InvalidArgument>("--space: which flags should trials differ in? {}", kExample);
  return space;
}

std::vector<Values> grid(const Space& space, std::uint64_t most) {
  const std::uint64_t points = points_of_ranges(space, most);
  std::vector<Values> trials{{}};
  for (const Dimension& dimension : space.dimensions) {
    const std::uint64_t count = dimension.size() == 0 ? points : dimension.size();
    std::vector<Values> longer;
    for (const Values& trial : trials) {
      for (std::uint64_t i = 0; i < count; ++i) {
        longer.push_back(trial);
        longer.back().emplace_back(dimension.flag, dimension.value(i, count));
      }
    }
    trials = std::move(longer);
  }
  std::set<Values> seen;  // whole numbers of a narrow range repeat
  std::erase_if(trials, [&](const Values& trial) { return !seen.insert(trial).second; });
  return trials;
}

std::vector<Values> sample(const Space& space, std::uint64_t count, std::uint64_t seed) {
  const std::uint64_t size = space.size();
  if (size == 0) return latin_hypercube(space, count, seed);
  const std::vector<Values> all = grid(space, size);
  std::vector<Values> trials;
  for (const std::uint64_t i : shuffled(all.size(), seed, /*epoch=*/0)) {
    if (trials.size() < count) trials.push_back(all[i]);
  }
  return trials;
}

}  // namespace trireme::tune
