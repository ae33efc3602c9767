#include "optim/pruning.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace trireme::optim {
namespace {

[[noreturn]] void refuse_pruning(std::string_view text, const std::string& why) {
  fail<InvalidArgument>(
      "'{}' is no way to prune: {}; expected SPARSITY[,from=STEP][,to=STEP][,every=STEPS], such as "
      "0.9,from=100,to=1000,every=50",
      text, why);
}

template <typename Number>
Number parse_number(std::string_view whole, std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size())
    refuse_pruning(whole, fmt::format("'{}' is no number", text));
  return number;
}

}  // namespace

PruneOptions parse_pruning(std::string_view text) {
  PruneOptions options;
  bool first = true;
  for (std::string_view rest = text; first || !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(rest.size(), comma + 1));
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals == std::string_view::npos ? 0 : equals);
    const std::string_view value = equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (first) {
      if (!key.empty()) refuse_pruning(text, "it begins with the share of parameters to prune");
      options.sparsity = parse_number<double>(text, value);
    } else if (key == "from") {
      options.from = parse_number<Step>(text, value);
    } else if (key == "to") {
      options.to = parse_number<Step>(text, value);
    } else if (key == "every") {
      options.every = parse_number<Step>(text, value);
    } else {
      refuse_pruning(text, fmt::format("'{}' is unknown", part));
    }
    first = false;
  }
  validate(options);
  return options;
}

std::string to_string(const PruneOptions& options) {
  std::string text = fmt::format("{}", options.sparsity);
  if (options.from != 0) text += fmt::format(",from={}", options.from);
  if (options.to != 0) text += fmt::format(",to={}", options.to);
  if (options.every != PruneOptions{}.every) text += fmt::format(",every={}", options.every);
  return text;
}

void validate(const PruneOptions& options) {
  const std::string text = to_string(options);
  if (!(options.sparsity > 0 && options.sparsity < 1)) refuse_pruning(text, "the share is above 0 and below 1");
  if (options.every == 0) refuse_pruning(text, "'every' is at least 1");
  if (options.to != 0 && options.to <= options.from) refuse_pruning(text, "'to' is after 'from'");
}

std::optional<double> sparsity_at(const PruneOptions& options, Step step) {
  if (step < options.from) return std::nullopt;
  if (step >= options.to) return step == options.to ? std::optional(options.sparsity) : std::nullopt;
  if ((step - options.from) % options.every != 0) return std::nullopt;
  const double left = 1 - static_cast<double>(step - options.from) / static_cast<double>(options.to - options.from);
  return options.sparsity * (1 - left * left * left);
}

float prune_threshold(std::span<const float> values, double sparsity) {
  const auto rank = static_cast<std::size_t>(std::floor(static_cast<double>(values.size()) * sparsity));
  if (rank == 0) return 0;
  std::vector<float> magnitudes(values.size());
  std::ranges::transform(values, magnitudes.begin(), [](float value) {
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::fabs(value);  // has no place in an order
  });
  const auto at = magnitudes.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(magnitudes.begin(), at, magnitudes.end());
  return *at;
}

}  // namespace trireme::optim
