#include "cli/plan/quantities.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cli/flags/numbers.h"

namespace trireme::cli {
namespace {

using Units = std::vector<std::pair<std::string, double>>;

double parse_quantity(const std::string& flag, const std::string& text, const Units& units,
                      const std::string& example) {
  std::string allowed = fmt::format("a number above 0 with a unit, as in {}; units: ", example);
  for (const auto& [name, factor] : units) allowed += (allowed.ends_with(' ') ? "" : ", ") + name;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || !std::isfinite(number) || number <= 0) refuse_number(flag, text, allowed);
  std::string unit(stopped, end);
  std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const auto& [name, factor] : units) {
    if (unit != name) continue;
    if (std::isfinite(number * factor) && number * factor > 0) return number * factor;
  }
  refuse_number(flag, text, allowed);
}

constexpr double kKi = 1024;

/// The parts between `separator`.
std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

double parse_bytes(const std::string& flag, const std::string& text) {
  return parse_quantity(flag, text,
                        {{"kb", 1e3},
                         {"mb", 1e6},
                         {"gb", 1e9},
                         {"tb", 1e12},
                         {"kib", kKi},
                         {"mib", kKi * kKi},
                         {"gib", kKi * kKi * kKi},
                         {"tib", kKi * kKi * kKi * kKi}},
                        "24gb");
}

double parse_bandwidth(const std::string& flag, const std::string& text) {
  return parse_quantity(flag, text,
                        {{"kbit", 1e3 / 8},
                         {"mbit", 1e6 / 8},
                         {"gbit", 1e9 / 8},
                         {"tbit", 1e12 / 8},
                         {"kb", 1e3},
                         {"mb", 1e6},
                         {"gb", 1e9},
                         {"tb", 1e12}},
                        "100gbit (per second)");
}

double parse_seconds(const std::string& flag, const std::string& text) {
  return parse_quantity(flag, text, {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}},
                        "20us");
}

double parse_flops(const std::string& flag, const std::string& text) {
  return parse_quantity(flag, text, {{"gflops", 1e9}, {"tflops", 1e12}, {"pflops", 1e15}}, "100tflops");
}

std::vector<std::uint64_t> parse_shape(const std::string& flag, const std::string& text) {
  std::vector<std::uint64_t> shape;
  for (const std::string& part : parts_of(text, 'x')) {
    std::uint64_t size = 0;
    const auto [stopped, problem] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (problem != std::errc() || stopped != part.data() + part.size() || size == 0) {
      refuse_number(flag, text, "whole numbers from 1 on, as in 3x224x224");
    }
    shape.push_back(size);
  }
  return shape;
}

std::vector<double> parse_list(const std::string& flag, const std::string& text, std::size_t count,
                               const std::string& allowed) {
  std::vector<double> numbers;
  for (const std::string& part : parts_of(text, ':')) {
    double number = 0;
    const auto [stopped, problem] = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool sane = problem == std::errc() && stopped == part.data() + part.size() && std::isfinite(number);
    if (!sane || number < 0) refuse_number(flag, text, allowed);
    numbers.push_back(number);
  }
  if (numbers.size() != count) refuse_number(flag, text, allowed);
  return numbers;
}

}  // namespace trireme::cli
