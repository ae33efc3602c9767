#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "dash/metric_rows.h"
#include "dash/plot.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

struct PlotFlags {
  std::vector<std::string> runs;
  std::string metric = "loss";
  std::string svg;
  bool log_x = false;
  bool log_y = false;
  std::uint32_t rows = 18;
};

int terminal_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::vector<dash::Series> read_series(const PlotFlags& flags) {
  std::vector<dash::Series> all;
  for (const std::string& run : flags.runs) {
    const auto folder = observe::RunFolder::open(run);
    const auto rows = dash::MetricRows(folder.metrics()).next().rows;
    if (rows.empty()) fail<InvalidArgument>("{} has no rows of metrics yet", run);
    auto series = dash::series_of(rows, flags.metric);
    if (series.empty()) {
      const auto names = dash::metric_names(rows);
      fail<InvalidArgument>("{} has no metric '{}'{}: there are {}", run, flags.metric,
                            did_you_mean(flags.metric, names), fmt::join(names, ", "));
    }
    for (dash::Series& line : series) {
      if (flags.runs.size() > 1) line.name = fmt::format("{} {}", folder.path().filename().string(), line.name);
      all.push_back(std::move(line));
    }
  }
  return all;
}

int plot(const PlotFlags& flags) {
  const auto series = read_series(flags);
  dash::PlotOptions options{.columns = terminal_columns(),
                            .rows = static_cast<int>(flags.rows),
                            .log_x = flags.log_x,
                            .log_y = flags.log_y,
                            .title = flags.metric};
  if (!flags.svg.empty()) {
    options.columns = 80;
    const std::string picture = dash::plot_svg(series, options);
    if (flags.svg == "-") {
      fmt::print("{}", picture);
    } else {
      write_file_atomically(flags.svg, as_bytes(picture));
    }
    return 0;
  }
  fmt::print("{}", dash::plot_braille(series, options));
  for (const dash::Series& line : series) fmt::print("{:12}{}: {:.6g}\n", "", line.name, line.y.back());
  return 0;
}

}  // namespace

void add_plot(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("plot", "draw a metric of one or more runs, in the terminal or as SVG");
  auto flags = std::make_shared<PlotFlags>();
  command->add_option("runs", flags->runs, "their folders")->required();
  command->add_option("-m,--metric", flags->metric, "a field of metrics.jsonl")->capture_default_str();
  command->add_option("--svg", flags->svg, "write a picture to this file; -: to standard output");
  command->add_flag("--log-x", flags->log_x, "logarithmic steps");
  command->add_flag("--log-y", flags->log_y, "logarithmic values");
  add_number(*command, "--rows", flags->rows, "height in lines", {.least = 3, .most = 200})->capture_default_str();
  command->footer("Example: trireme plot runs/first -m accuracy");
  command->callback([flags, &action] { action = [flags] { return plot(*flags); }; });
}

}  // namespace trireme::cli
