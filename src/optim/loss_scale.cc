#include "optim/loss_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/numbers/simd.h"

namespace trireme::optim {
namespace {

constexpr double kFirstScale = 65536;             // as torch's GradScaler
constexpr float kLargestScale = 0x1p126f;         // its inverse is still a normal float
constexpr float kSmallestScale = 0x1p-24f;        // forty steps in a row below the usual first one
constexpr Step kMostGrowthSteps = Step{1} << 24;  // up to here a float counts exactly

[[noreturn]] void refuse_scale(std::string_view text, const std::string& why) {
  fail<InvalidArgument>(
      "'{}' is no loss scale: {}; expected a number, dynamic, or dynamic[,init=SCALE][,every=STEPS], such as "
      "dynamic,init=65536,every=2000",
      text, why);
}

template <typename Number>
Number scale_number(std::string_view whole, std::string_view text) {
  Number number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size())
    refuse_scale(whole, fmt::format("'{}' is no number", text));
  return number;
}

TRIREME_SIMD bool exponents_below_all_ones(const float* values, std::size_t count) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bits &= 0x7f800000u;
    largest = bits > largest ? bits : largest;
  }
  return largest < 0x7f800000u;
}

}  // namespace

LossScaleOptions parse_loss_scale(std::string_view text) {
  LossScaleOptions options;
  std::string_view rest = text;
  const auto next = [&] {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(rest.size(), comma + 1));
    return part;
  };
  const std::string_view first = next();
  options.dynamic = first == "dynamic";
  options.scale = options.dynamic ? kFirstScale : scale_number<double>(text, first);
  while (!rest.empty()) {
    const std::string_view part = next();
    if (!options.dynamic) refuse_scale(text, "a scale that does not adapt has no settings");
    if (part.starts_with("init=")) {
      options.scale = scale_number<double>(text, part.substr(5));
    } else if (part.starts_with("every=")) {
      options.growth_every = scale_number<Step>(text, part.substr(6));
    } else {
      refuse_scale(text, fmt::format("'{}' is unknown", part));
    }
  }
  validate(options);
  return options;
}

void validate(const LossScaleOptions& options) {
  if (!(options.scale >= kSmallestScale && options.scale <= kLargestScale)) {
    fail<InvalidArgument>("a loss scale of {} cannot be: from 2^-24 to 2^126, usually 65536", options.scale);
  }
  if (options.growth_every == 0 || options.growth_every >= kMostGrowthSteps) {
    fail<InvalidArgument>("a loss scale that doubles after {} good steps cannot be: from 1 to {}", options.growth_every,
                          kMostGrowthSteps - 1);
  }
}

LossScale first_scale(const LossScaleOptions& options) { return {.scale = static_cast<float>(options.scale)}; }

LossScale after_step(LossScale scale, bool finite, Step growth_every) {
  if (!finite) return {.scale = scale.scale / 2, .good = 0, .skipped = scale.skipped + 1};
  if (++scale.good >= static_cast<float>(growth_every)) {
    scale.scale = std::min(scale.scale * 2, kLargestScale);
    scale.good = 0;
  }
  return scale;
}

void check_useful(const LossScale& scale, Step step) {
  if (scale.scale >= kSmallestScale) return;
  fail<InvalidArgument>(
      "the gradient of step {} is not finite, with however small a loss scale: the learning rate may be too high, or "
      "the data bad; a loss that is finite can have such a gradient",
      step);
}

bool all_finite(std::span<const float> values) { return exponents_below_all_ones(values.data(), values.size()); }

}  // namespace trireme::optim
