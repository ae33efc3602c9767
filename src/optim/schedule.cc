#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "trireme/optimizer.h"

#include "base/error.h"
#include "base/suggest.h"

namespace trireme::optim {
namespace {

/// Returns how much of the run after the warm-up is done, from 0 to 1.
double progress(const ScheduleOptions& options, Step step) {
  if (options.steps <= options.warmup) return 0;
  const double done = static_cast<double>(step) - static_cast<double>(options.warmup);
  return std::clamp(done / static_cast<double>(options.steps - options.warmup), 0.0, 1.0);
}

/// "cosine:900" is cosine for a run of 900 steps, also where this one ends earlier and goes on later.
ScheduleOptions with_own_length(ScheduleOptions options) {
  const std::size_t colon = options.shape.find(':');
  const std::string shape = options.shape.substr(0, colon);
  if (colon == std::string::npos || (shape != "cosine" && shape != "linear")) return options;
  const char* const begin = options.shape.data() + colon + 1;
  const char* const end = options.shape.data() + options.shape.size();
  const auto [stopped, problem] = std::from_chars(begin, end, options.steps);
  if (problem != std::errc() || stopped != end || options.steps == 0) {
    fail<InvalidArgument>("schedule '{}': expected {}:<steps of the whole run>, such as {}:900", options.shape, shape,
                          shape);
  }
  options.shape = shape;
  return options;
}

Schedule make_shape(const ScheduleOptions& options) {
  if (options.shape == "constant") return [](Step) { return 1.0; };
  if (options.shape == "linear") return [options](Step step) { return 1.0 - progress(options, step); };
  if (options.shape == "cosine") {
    return [options](Step step) { return 0.5 * (1.0 + std::cos(std::numbers::pi * progress(options, step))); };
  }
  if (options.shape.starts_with("step:")) {
    unsigned long epochs = 0;
    double factor = 0;
    char rest = 0;
    if (std::sscanf(options.shape.c_str(), "step:%lu:%lf%c", &epochs, &factor, &rest) != 2 || epochs == 0 ||
        !(factor > 0)) {
      fail<InvalidArgument>("schedule '{}': expected step:<every epochs>:<factor>, such as step:10:0.1", options.shape);
    }
    return [options, epochs, factor](Step step) {
      return std::pow(factor, static_cast<double>(step / std::max<Step>(1, options.steps_per_epoch) / epochs));
    };
  }
  fail<InvalidArgument>("unknown schedule '{}'{}: use constant, linear, cosine or step:<every epochs>:<factor>",
                        options.shape, did_you_mean(options.shape, {"constant", "linear", "cosine", "step:10:0.1"}));
}

}  // namespace

Schedule make_schedule(const ScheduleOptions& options) {
  Schedule shape = make_shape(with_own_length(options));
  if (options.warmup == 0) return shape;
  return [shape, warmup = options.warmup](Step step) {
    if (step >= warmup) return shape(step);
    return shape(step) * static_cast<double>(step + 1) / static_cast<double>(warmup);
  };
}

}  // namespace trireme::optim
