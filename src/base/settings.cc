#include "base/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"

namespace trireme {

Settings Settings::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  Settings settings{.name = std::string(text.substr(0, colon))};
  if (colon == std::string_view::npos) return settings;
  std::string rest(text.substr(colon + 1));
  do {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string part = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string value = part.substr(std::min(part.size(), equals + 1));
    double number = 0;
    const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = problem == std::errc() && end == value.data() + value.size() && std::isfinite(number);
    if (equals == 0 || !whole) {
      fail<InvalidArgument>("'{}' in '{}': expected {}:KEY=NUMBER, with commas between several", part, text,
                            settings.name);
    }
    settings.numbers[part.substr(0, equals)] = number;
  } while (!rest.empty());
  return settings;
}

void Settings::check_keys(const std::vector<std::string>& keys) const {
  for (const auto& [key, number] : numbers) {
    if (std::ranges::count(keys, key) > 0) continue;
    if (keys.empty()) fail<InvalidArgument>("'{}' has no settings, so none called '{}'", name, key);
    fail<InvalidArgument>("'{}' has no setting '{}'{}: use {}", name, key, did_you_mean(key, keys),
                          fmt::join(keys, ", "));
  }
}

double Settings::number(const std::string& key, double otherwise) const {
  const auto found = numbers.find(key);
  return found == numbers.end() ? otherwise : found->second;
}

std::int64_t Settings::count(const std::string& key, std::int64_t otherwise) const {
  constexpr double kMost = 1 << 24;
  const double value = number(key, static_cast<double>(otherwise));
  if (!(value >= 1 && value <= kMost && value == std::floor(value))) {
    fail<InvalidArgument>("'{}' with {}={}: a whole number from 1 to {}", name, key, value, kMost);
  }
  return static_cast<std::int64_t>(value);
}

}  // namespace trireme
