#include "plan/schedule/schedule_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace trireme::plan {
namespace {

char letter_of(ActionKind kind) {
  return kind == ActionKind::kForward         ? 'F'
         : kind == ActionKind::kBackward      ? 'B'
         : kind == ActionKind::kBackwardInput ? 'I'
                                              : 'W';
}

bool has_chunks(const Schedule& schedule) { return schedule.stages() > schedule.ranks.size(); }

std::string label_of(const Schedule& schedule, const Action& action) {
  return has_chunks(schedule) ? to_text(action) : fmt::format("{}{}", letter_of(action.kind), action.micro_batch);
}

double shortest_action(const Evaluation& evaluation) {
  double unit = std::numeric_limits<double>::infinity();
  for (const ActionTime& each : evaluation.actions) {
    if (each.end > each.begin) unit = std::min(unit, each.end - each.begin);
  }
  return std::isfinite(unit) ? unit : 1;
}

struct Colours {
  const char* fill;
  const char* text;
};

/// Later chunks are paler, so that the ways down and up of a V are told apart.
Colours colours_of(ActionKind kind, bool later_chunk) {
  switch (kind) {
    case ActionKind::kForward:
      return later_chunk ? Colours{"#a9c7ec", "#102a4c"} : Colours{"#3f78c1", "#ffffff"};
    case ActionKind::kBackward:
      return later_chunk ? Colours{"#a8d9b8", "#0c3a1e"} : Colours{"#3a9a5c", "#ffffff"};
    case ActionKind::kBackwardInput:
      return later_chunk ? Colours{"#f3cf9f", "#4f2d05"} : Colours{"#d98324", "#ffffff"};
    default:
      return later_chunk ? Colours{"#cfc3e6", "#2c1a52"} : Colours{"#7a5bb5", "#ffffff"};
  }
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else {
      safe += c < ' ' && c >= 0 ? '?' : c;
    }
  }
  return safe;
}

constexpr double kLeft = 64;  // of the rows; in pixels, like all below
constexpr double kTop = 34;
constexpr double kRow = 26;
constexpr double kBar = 22;
constexpr double kLegend = 30;
constexpr double kNarrowestLabel = 13;

std::string legend(const Schedule& schedule, double y) {
  bool whole = false;
  for (const Action& action : schedule.ranks.front()) whole = whole || action.kind == ActionKind::kBackward;
  struct Entry {
    ActionKind kind;
    const char* text;
  };
  std::vector<Entry> entries = {{ActionKind::kForward, "forward"}};
  if (whole) {
    entries.push_back({ActionKind::kBackward, "backward"});
  } else {
    entries.push_back({ActionKind::kBackwardInput, "gradient of the input"});
    entries.push_back({ActionKind::kBackwardWeight, "gradient of the weights"});
  }
  std::string svg;
  double x = kLeft;
  for (const auto& [kind, text] : entries) {
    svg += fmt::format(R"(<rect x="{:.0f}" y="{:.0f}" width="12" height="12" rx="2" fill="{}"/>)", x, y,
                       colours_of(kind, false).fill);
    svg += fmt::format(R"(<text x="{:.0f}" y="{:.0f}" class="n">{}</text>)", x + 17, y + 10.5, text);
    x += 17 + 8.0 * static_cast<double>(std::string_view(text).size()) + 16;
  }
  return svg + "\n";
}

}  // namespace

std::string text_picture(const Schedule& schedule, const Evaluation& evaluation, std::size_t most_columns) {
  const double unit = shortest_action(evaluation);
  const auto column = [&](double time) { return static_cast<std::size_t>(std::llround(time / unit)); };
  const std::size_t all = column(evaluation.makespan);
  const std::size_t columns = std::min(all, most_columns);
  std::size_t width = 1;
  for (const ActionTime& each : evaluation.actions) width = std::max(width, label_of(schedule, each.action).size());
  std::vector<std::vector<std::string>> rows(schedule.ranks.size(), std::vector<std::string>(columns, "."));
  for (const ActionTime& each : evaluation.actions) {
    const std::size_t begin = column(each.begin);
    for (std::size_t i = begin; i < std::max(begin + 1, column(each.end)) && i < columns; ++i) {
      rows[each.rank][i] = i == begin ? label_of(schedule, each.action) : std::string(width, '-');
    }
  }
  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    text += fmt::format("rank {:<4}", rank);
    for (const std::string& cell : rows[rank]) text += fmt::format(" {:<{}}", cell, width);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  if (columns < all) text += fmt::format("(the first {} of {} columns; --svg FILE draws all)\n", columns, all);
  return text;
}

std::string svg_picture(const Schedule& schedule, const Evaluation& evaluation) {
  const double unit = shortest_action(evaluation);
  const double slots = std::max(1.0, evaluation.makespan / unit);
  const double slot = std::clamp(1600 / slots, 1.0, 26.0);
  const double scale = slot / unit;
  const double width = kLeft + evaluation.makespan * scale + 16;
  const double height = kTop + kRow * static_cast<double>(schedule.ranks.size()) + kLegend + 8;
  const std::string title =
      fmt::format("{}: {} stages on {} ranks, {} micro-batches, bubble {:.1f} %", escaped(schedule.name),
                  schedule.stages(), schedule.ranks.size(), schedule.micro_batches, 100 * evaluation.bubble);
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img">
<title>{2}</title>
<style>text{{font:11px system-ui,sans-serif;text-anchor:middle}} .n{{font-size:12px;text-anchor:start;fill:#222}} .r{{text-anchor:end;fill:#222}}</style>
<rect width="{0:.0f}" height="{1:.0f}" rx="6" fill="#ffffff"/>
<text x="{3:.0f}" y="21" class="n">{2}</text>
)",
      std::max(width, 560.0), height, title, kLeft);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    svg += fmt::format(R"(<text x="{:.0f}" y="{:.0f}" class="r">rank {}</text>)", kLeft - 8, y + 15, rank);
    svg += fmt::format(R"(<rect x="{:.0f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" fill="#eceff3"/>)", kLeft, y,
                       evaluation.makespan * scale, kBar);
    svg += '\n';
  }
  for (const ActionTime& each : evaluation.actions) {
    const bool later = each.action.stage >= schedule.ranks.size();
    const auto [fill, text] = colours_of(each.action.kind, later);
    const double x = kLeft + each.begin * scale;
    const double y = kTop + kRow * each.rank;
    const double wide = (each.end - each.begin) * scale;
    svg += fmt::format(
        R"(<rect x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" rx="2" fill="{}" stroke="#ffffff" stroke-width="0.6">)",
        x, y, wide, kBar, fill);
    svg += fmt::format("<title>{}: {:g} to {:g}</title></rect>", to_text(each.action), each.begin, each.end);
    if (wide >= kNarrowestLabel) {
      svg += fmt::format(R"(<text x="{:.1f}" y="{:.0f}" fill="{}">{}</text>)", x + wide / 2, y + 15, text,
                         each.action.micro_batch);
    }
    svg += '\n';
  }
  return svg + legend(schedule, height - kLegend) + "</svg>\n";
}

}  // namespace trireme::plan
