// The text of the progress line; a pure function of the progress.

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "observe/progress.h"
#include "observe/text_width.h"

namespace trireme::observe {
namespace {

constexpr std::string_view kDash = "–";
constexpr int kShortestBar = 5;
constexpr int kLongestBar = 30;
constexpr int kLongestNote = 40;

/// Which parts a narrow line drops first: the least important come first.
enum class Importance { kBar, kClocks, kStep, kSpeed, kNote, kEpoch, kMetric, kTimeLeft, kLoss, kPercent };

/// Before parts are left out of a line that is too long, all of them are abbreviated.
enum class Wording { kFull, kShort };

struct Part {
  Importance importance;
  std::string text;
  int columns;
};

/// Returns the share of the run that is done, 0 to 1, or NaN.
double done_share(const Progress& progress) {
  double share = Progress::kUnknown;
  if (progress.steps > 0) {
    share = static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  } else if (progress.epochs > 0) {
    share = progress.epoch / static_cast<double>(progress.epochs);
  }
  return std::isnan(share) ? share : std::clamp(share, 0.0, 1.0);
}

std::string percent_text(double percent, int digits, Wording wording) {
  const std::string number = std::isfinite(percent) ? fmt::format("{:.{}f}", percent, digits) : std::string(kDash);
  return number + (wording == Wording::kFull ? " %" : "%");
}

std::string epoch_text(const Progress& progress) {
  std::string text =
      std::isnan(progress.epoch) ? fmt::format("epoch {}", kDash) : fmt::format("epoch {:.1f}", progress.epoch);
  if (progress.epochs > 0) text += fmt::format("/{}", progress.epochs);
  return text;
}

std::string step_text(const Progress& progress, Wording wording) {
  std::string text = fmt::format("{}{}", wording == Wording::kFull ? "step " : "", progress.step);
  if (progress.steps > 0) text += fmt::format("/{}", progress.steps);
  return text;
}

std::string rate_text(double rate) {
  if (!std::isfinite(rate) || rate < 0) return std::string(kDash);
  if (rate < 9'999.5) return fmt::format("{:.0f}", rate);
  if (rate < 999'950) return fmt::format("{:.1f}k", rate / 1e3);
  return rate < 1e12 ? fmt::format("{:.1f}M", rate / 1e6) : fmt::format("{:.1e}", rate);
}

std::string value_text(const std::string& name, double value) {
  if (std::isnan(value)) return fmt::format("{} {}", name, kDash);
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-3 && size < 1e4) || std::isinf(value);
  return plain ? fmt::format("{} {:.4f}", name, value) : fmt::format("{} {:.2e}", name, value);
}

/// The usual share of correct predictions gets little room; all else stands under its name.
std::string metric_text(const NamedValue& metric, Wording wording) {
  if (metric.name == "accuracy") return "acc " + percent_text(100 * metric.value, 1, wording);
  return value_text(fit(printable(metric.name), kLongestNote), metric.value);
}

std::string clocks_text(const Progress& progress, Wording wording) {
  const Step spread = progress.clock_max - std::min(progress.clock_min, progress.clock_max);
  if (wording == Wording::kShort) return fmt::format("spread {}", spread);
  return spread == 0 ? fmt::format("clock {}", progress.clock_max)
                     : fmt::format("clocks {}–{}", progress.clock_min, progress.clock_max);
}

std::string time_left_text(double seconds_left) {
  constexpr double kLongest = 1e9;  // about 30 years: no meaningful estimate
  if (!(seconds_left >= 0 && seconds_left < kLongest)) return fmt::format("{} left", kDash);
  const auto total = static_cast<std::int64_t>(std::ceil(seconds_left));
  const std::int64_t hours = total / 3600;
  const std::int64_t minutes = total / 60 % 60;
  if (hours >= 24) return fmt::format("{} d {} h left", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{}:{:02}:{:02} left", hours, minutes, total % 60);
  return fmt::format("{}:{:02} left", minutes, total % 60);
}

std::string bar_text(double share, int columns, bool colour) {
  const int done = std::isnan(share) ? 0 : static_cast<int>(std::floor(share * columns));
  std::string bar = colour && done > 0 ? "\x1b[32m" : "";
  for (int i = 0; i < done; ++i) bar += "━";
  if (colour && done > 0) bar += "\x1b[0m";
  for (int i = done; i < columns; ++i) bar += "─";
  return bar;
}

/// Returns the parts in display order. The bar's text is set last, when its width is known.
std::vector<Part> all_parts(const Progress& progress, double share, bool bar, Wording wording) {
  std::vector<Part> parts;
  const auto add = [&](Importance importance, std::string text) {
    const int columns = columns_of(text);
    parts.push_back({importance, std::move(text), columns});
  };
  if (progress.open_ended) {
    add(Importance::kPercent, step_text(progress, wording));
    add(Importance::kSpeed, rate_text(progress.steps_per_s) + (wording == Wording::kFull ? " steps/s" : "/s"));
    for (const auto& [name, value] : progress.averages) {
      add(Importance::kLoss, fit(printable(name), kLongestNote) + fmt::format(" {:.4g}", value));
    }
    if (!progress.note.empty()) add(Importance::kNote, fit(printable(progress.note), kLongestNote));
    return parts;
  }
  add(Importance::kEpoch, epoch_text(progress));
  if (bar) parts.push_back({Importance::kBar, "", kShortestBar});
  add(Importance::kPercent, percent_text(std::floor(100 * share), 0, wording));  // rounded down: 100 % means finished
  add(Importance::kStep, step_text(progress, wording));
  add(Importance::kSpeed, rate_text(progress.samples_per_s) + (wording == Wording::kFull ? " samples/s" : "/s"));
  add(Importance::kLoss, value_text("loss", progress.loss));
  for (const NamedValue& metric : progress.metrics) add(Importance::kMetric, metric_text(metric, wording));
  if (progress.clock_max > 0) add(Importance::kClocks, clocks_text(progress, wording));
  add(Importance::kTimeLeft, time_left_text(progress.seconds_left));
  if (!progress.note.empty()) add(Importance::kNote, fit(printable(progress.note), kLongestNote));
  return parts;
}

int total_columns(const std::vector<Part>& parts, int gap) {
  int columns = gap * (static_cast<int>(parts.size()) - 1);
  for (const Part& part : parts) columns += part.columns;
  return columns;
}

}  // namespace

std::string render_progress(const Progress& progress, int columns, ProgressStyle style) {
  const double share = done_share(progress);
  int gap = 2;  // columns between two parts
  std::vector<Part> parts = all_parts(progress, share, style.bar, Wording::kFull);
  if (total_columns(parts, gap) > columns) {
    gap = 1;
    parts = all_parts(progress, share, style.bar, Wording::kShort);
  }
  while (parts.size() > 1 && total_columns(parts, gap) > columns) {
    parts.erase(std::ranges::min_element(parts, {}, &Part::importance));
  }
  if (parts.size() == 1) return fit(parts.front().text, columns);

  const int spare = columns - total_columns(parts, gap);
  std::string line;
  for (const Part& part : parts) {
    if (!line.empty()) line.append(static_cast<std::size_t>(gap), ' ');
    if (part.importance == Importance::kBar) {
      line += bar_text(share, std::min(kLongestBar, part.columns + spare), style.colour);
    } else {
      line += part.text;
    }
  }
  return line;
}

bool colour_wanted(const char* no_color, const char* term) {
  const bool forbidden = no_color != nullptr && *no_color != '\0';
  return !forbidden && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

}  // namespace trireme::observe
