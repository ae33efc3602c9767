#include "dash/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::dash {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 6> kColours = {"#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2"};

/// What is shown of an axis, in its own scale.
struct Axis {
  double low = 0;
  double high = 1;
  bool log = false;

  double scaled(double value) const { return log ? std::log10(value) : value; }
  double at(double share) const {
    const double value = low + share * (high - low);
    return log ? std::pow(10, value) : value;
  }
  bool shows(double value) const { return std::isfinite(value) && (!log || value > 0); }
  double share(double value) const { return high > low ? (scaled(value) - low) / (high - low) : 0.5; }
};

Axis fit(std::span<const Series> series, std::vector<double> Series::*values, bool log) {
  Axis axis{
      .low = std::numeric_limits<double>::infinity(), .high = -std::numeric_limits<double>::infinity(), .log = log};
  for (const Series& line : series) {
    for (const double value : line.*values) {
      if (!axis.shows(value)) continue;
      axis.low = std::min(axis.low, axis.scaled(value));
      axis.high = std::max(axis.high, axis.scaled(value));
    }
  }
  if (!(axis.low <= axis.high)) return {.low = 0, .high = 1, .log = log};
  if (axis.low == axis.high) {
    const double room = axis.low == 0 ? 1 : std::abs(axis.low) * 0.1;
    axis.low -= room;
    axis.high += room;
  }
  return axis;
}

/// Dots, two by four of which are a character.
class Canvas {
 public:
  Canvas(int columns, int rows) : columns_(columns), rows_(rows), dots_(static_cast<std::size_t>(columns * rows), 0) {}

  void dot(double x, double y) {
    const int column = std::clamp(static_cast<int>(std::lround(x * (2 * columns_ - 1))), 0, 2 * columns_ - 1);
    const int row = std::clamp(static_cast<int>(std::lround((1 - y) * (4 * rows_ - 1))), 0, 4 * rows_ - 1);
    static constexpr std::uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    dots_[static_cast<std::size_t>(row / 4 * columns_ + column / 2)] |= kBits[row % 4][column % 2];
  }

  void line(double x0, double y0, double x1, double y1) {
    const double steps = std::max({1.0, std::abs(x1 - x0) * 2 * columns_, std::abs(y1 - y0) * 4 * rows_});
    for (int i = 0; i <= static_cast<int>(steps); ++i) dot(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps);
  }

  std::string row(int row) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const unsigned code = 0x2800u + dots_[static_cast<std::size_t>(row * columns_ + column)];
      text += static_cast<char>(0xE0 | (code >> 12));
      text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
    return text;
  }

 private:
  int columns_;
  int rows_;
  std::vector<std::uint8_t> dots_;
};

std::string escaped_xml(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '<') {
      safe += "&lt;";
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '"') {
      safe += "&quot;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      safe += c;
    }
  }
  return safe;
}

double not_finite_value(const json& row, const std::string& name) {
  const json which = row.value("not_finite", json::object());
  const std::string what = which.is_object() ? which.value(name, "nan") : "nan";
  const double infinite = std::numeric_limits<double>::infinity();
  return what == "inf" ? infinite : what == "-inf" ? -infinite : std::numeric_limits<double>::quiet_NaN();
}

bool is_metric(const std::string& name, const json& value) {
  static const std::set<std::string> kNot{"step", "time", "kind", "not_finite", "set"};
  return !kNot.contains(name) && (value.is_number() || value.is_null());
}

}  // namespace

std::vector<std::string> metric_names(std::span<const std::string> rows) {
  std::set<std::string> names;
  for (const std::string& text : rows) {
    const json row = json::parse(text, nullptr, false);
    if (!row.is_object()) continue;
    for (const auto& [name, value] : row.items()) {
      if (is_metric(name, value)) names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<Series> series_of(std::span<const std::string> rows, const std::string& metric) {
  std::map<std::string, std::map<double, double>> kinds;
  for (const std::string& text : rows) {
    const json row = json::parse(text, nullptr, false);
    if (!row.is_object() || !row.contains(metric) || !is_metric(metric, row.at(metric))) continue;
    const json kind = row.value("kind", json("train"));
    const double step = row.value("step", 0.0);
    auto& points = kinds[kind.is_string() ? kind.get<std::string>() : "train"];
    points.erase(points.lower_bound(step), points.end());  // what was made before a resume
    const json& value = row.at(metric);
    points[step] = value.is_number() ? value.get<double>() : not_finite_value(row, metric);
  }
  std::vector<Series> all;
  for (const auto& [kind, points] : kinds) {
    Series& line = all.emplace_back(Series{.name = kind});
    for (const auto& [step, value] : points) {
      line.x.push_back(step);
      line.y.push_back(value);
    }
  }
  std::ranges::reverse(all);  // "train" before "test"
  return all;
}

std::string plot_braille(std::span<const Series> series, const PlotOptions& options) {
  const Axis x = fit(series, &Series::x, options.log_x);
  const Axis y = fit(series, &Series::y, options.log_y);
  const int width = std::max(10, options.columns - 12);
  const int height = std::max(3, options.rows);
  Canvas canvas(width, height);
  std::string marks(static_cast<std::size_t>(width), ' ');
  bool any_mark = false;
  for (const Series& line : series) {
    double last_x = 0;
    double last_y = 0;
    bool joined = false;
    for (std::size_t i = 0; i < line.x.size(); ++i) {
      if (!x.shows(line.x[i])) continue;
      const double across = x.share(line.x[i]);
      if (!y.shows(line.y[i])) {
        if (!std::isfinite(line.y[i])) {
          const auto column = std::clamp(static_cast<int>(across * (width - 1)), 0, width - 1);
          marks[static_cast<std::size_t>(column)] = '!';
          any_mark = true;
        }
        joined = false;
        continue;
      }
      const double up = y.share(line.y[i]);
      if (joined) {
        canvas.line(last_x, last_y, across, up);
      } else {
        canvas.dot(across, up);
      }
      last_x = across;
      last_y = up;
      joined = true;
    }
  }
  std::string text = options.title.empty() ? "" : options.title + "\n";
  for (int row = 0; row < height; ++row) {
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    const std::string label =
        labelled ? fmt::format("{:>10.4g}", y.at(1 - static_cast<double>(row) / std::max(1, height - 1)))
                 : "          ";
    text += fmt::format("{} ┤{}\n", label, canvas.row(row));
  }
  if (any_mark) text += fmt::format("{:>10}  {}\n", "nan, inf", marks);
  const std::string left = fmt::format("{:.4g}", x.at(0));
  const std::string right = fmt::format("{:.4g} {}", x.at(1), options.x_name);
  const int gap = std::max(1, width - static_cast<int>(left.size() + right.size()));
  text += fmt::format("{:12}{}{:{}}{}\n", "", left, "", gap, right);
  return text;
}

std::string plot_svg(std::span<const Series> series, const PlotOptions& options) {
  const Axis x = fit(series, &Series::x, options.log_x);
  const Axis y = fit(series, &Series::y, options.log_y);
  const int width = options.columns * 10;
  const int height = options.rows * 20;
  const int left = 70;
  const int bottom = 40;
  const int top = 30;
  const double inner_width = width - left - 20;
  const double inner_height = height - bottom - top;
  const auto across = [&](double share) { return left + share * inner_width; };
  const auto down = [&](double share) { return top + (1 - share) * inner_height; };
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n<title>{2}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{3}\" y=\"18\" font-size=\"14\">{2}</text>\n",
      width, height, escaped_xml(options.title), left);
  for (int tick = 0; tick <= 4; ++tick) {
    const double share = tick / 4.0;
    text += fmt::format(
        "<line x1=\"{0}\" x2=\"{1:.0f}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.4g}</text>\n",
        left, across(1), down(share), left - 6, down(share) + 4, y.at(share));
    text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", across(share),
                        height - bottom + 18, x.at(share));
  }
  text += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", across(1), height - 6,
                      escaped_xml(options.x_name));
  for (std::size_t s = 0; s < series.size(); ++s) {
    const char* colour = kColours[s % kColours.size()];
    std::string path;
    std::string marks;
    bool joined = false;
    for (std::size_t i = 0; i < series[s].x.size(); ++i) {
      if (!x.shows(series[s].x[i])) continue;
      const double at = across(x.share(series[s].x[i]));
      if (!y.shows(series[s].y[i])) {
        if (!std::isfinite(series[s].y[i])) {
          marks += fmt::format("<path d=\"M{0:.1f} {1:.1f}l4 -8h-8z\" fill=\"{2}\"><title>{3}</title></path>\n", at,
                               down(0), colour, std::isnan(series[s].y[i]) ? "nan" : "inf");
        }
        joined = false;
        continue;
      }
      const double height_of = down(y.share(series[s].y[i]));
      path += fmt::format("{}{:.1f} {:.1f}", std::exchange(joined, true) ? "L" : "M", at, height_of);
      if (options.dots) {
        marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", at, height_of, colour);
      }
    }
    text += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n{}", path, colour, marks);
    text += fmt::format("<text x=\"{:.0f}\" y=\"{}\" fill=\"{}\" text-anchor=\"end\">{}</text>\n", across(1),
                        18 + 14 * s, colour, escaped_xml(series[s].name));
  }
  return text + "</svg>\n";
}

}  // namespace trireme::dash
