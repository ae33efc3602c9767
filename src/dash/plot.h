#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::dash {

/// A line of a plot.
struct Series {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;  ///< NaN and infinite values become marks on the axis
};

struct PlotOptions {
  int columns = 80;  ///< characters, or tens of pixels of an SVG
  int rows = 20;
  bool log_x = false;
  bool log_y = false;
  bool dots = false;  ///< of an SVG: each value has one, for lines of few values
  std::string title = {};
  std::string x_name = "step";
};

/// Returns the lines drawn with braille characters, eight dots each, with axes and a legend.
std::string plot_braille(std::span<const Series> series, const PlotOptions& options);

/// Returns the same as a picture, a whole SVG file.
std::string plot_svg(std::span<const Series> series, const PlotOptions& options);

/// Reads the values of one metric from rows of metrics.jsonl, one series for each kind of row ("train", "test"): a
/// later row of a step replaces an earlier one. Rows without it are skipped; null is what `not_finite` says it was.
std::vector<Series> series_of(std::span<const std::string> rows, const std::string& metric);

/// Returns the names of all numbers in the rows that can be plotted.
std::vector<std::string> metric_names(std::span<const std::string> rows);

}  // namespace trireme::dash
