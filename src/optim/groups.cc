#include <algorithm>
#include <charconv>
#include <cmath>

#include "trireme/optimizer.h"

#include "base/error.h"

namespace trireme::optim {
namespace {

constexpr std::string_view kVectors = "1d";

[[noreturn]] void refuse_group(std::string_view text, const std::string& why) {
  fail<InvalidArgument>(
      "'{}' is no group of parameters: {}; expected NAMES:SETTING[,SETTING], such as 1d:decay=0, h.0.*:frozen or "
      "head.*:lr=10",
      text, why);
}

double parse_factor(std::string_view whole, std::string_view text) {
  double number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool all = problem == std::errc() && end == text.data() + text.size();
  if (!all || !(number >= 0) || !std::isfinite(number)) {
    refuse_group(whole, fmt::format("'{}' is no finite number of at least 0", text));
  }
  return number;
}

/// Whether `text` is of the form `pattern`, with * and ?.
bool fits(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one seen, and how much of the text it has taken
  std::size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

ParameterGroup parse_group(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) refuse_group(text, "names and settings are separated by a colon");
  ParameterGroup group{.match = std::string(text.substr(0, colon))};
  std::string_view rest = text.substr(colon + 1);
  do {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(rest.size(), comma + 1));
    if (part == "frozen") {
      group.frozen = true;
    } else if (part.starts_with("lr=")) {
      group.lr = parse_factor(text, part.substr(3));
    } else if (part.starts_with("decay=")) {
      group.decay = parse_factor(text, part.substr(6));
    } else {
      refuse_group(text, fmt::format("'{}' is unknown: there are lr=, decay= and frozen", part));
    }
  } while (!rest.empty());
  return group;
}

std::vector<ParameterGroup> parse_groups(std::string_view text) {
  std::vector<ParameterGroup> groups;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    groups.push_back(parse_group(text.substr(0, end)));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return groups;
}

std::string to_string(const ParameterGroup& group) {
  std::string settings;
  const auto add = [&](const std::string& setting) { settings += (settings.empty() ? "" : ",") + setting; };
  if (group.frozen) add("frozen");
  if (group.lr != 1) add(fmt::format("lr={}", group.lr));
  if (group.decay != 1) add(fmt::format("decay={}", group.decay));
  if (settings.empty()) settings = "lr=1";
  return group.match + ":" + settings;
}

bool matches(const ParameterGroup& group, std::string_view name, std::size_t dimensions) {
  return group.match == kVectors ? dimensions < 2 : fits(group.match, name);
}

}  // namespace trireme::optim
