#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/metrics.h"
#include "trireme/types.h"

#include "base/mutex.h"

namespace trireme::observe {

/// The state of a run. NaN means "not known" and is shown as "–".
struct Progress {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double epoch = kUnknown;   ///< epochs finished, with fraction
  std::uint64_t epochs = 0;  ///< 0 = no limit
  Step step = 0;
  Step steps = 0;  ///< 0 = no limit
  double samples_per_s = kUnknown;
  double loss = kUnknown;
  std::vector<NamedValue> metrics = {};  ///< of the task
  Step clock_min = 0;                    ///< clocks of the slowest and the fastest worker; both 0 = left out
  Step clock_max = 0;
  double seconds_left = kUnknown;

  /// A custom loop of unknown length: only steps, their rate and the program's own averages are shown.
  bool open_ended = false;
  double steps_per_s = kUnknown;
  std::map<std::string, double> averages = {};
  std::string note = {};  ///< a few words: what is being waited for, which process was lost
};

struct ProgressStyle {
  bool bar = true;
  bool colour = false;  ///< only the done part of the bar, in green
};

/// Returns one line, without newline, never wider than `columns`: as it gets narrower, parts are abbreviated, the bar
/// shrinks, then the least important parts are left out. The percentage is that of steps if their number is known, else
/// of epochs.
std::string render_progress(const Progress& progress, int columns, ProgressStyle style = {});

/// Returns whether to use colour, given the environment variables NO_COLOR (see no-color.org) and TERM; null = not set.
/// The caller reads the environment: nothing in this folder does.
bool colour_wanted(const char* no_color, const char* term);

struct ProgressOptions {
  using Clock = std::chrono::steady_clock;

  int descriptor = 2;                           ///< where to write; borrowed
  std::optional<bool> terminal = {};            ///< nullopt = detect
  bool colour = false;                          ///< see colour_wanted; only ever used on a terminal
  std::chrono::milliseconds redraw_every{100};  ///< on a terminal
  std::chrono::milliseconds print_every{5000};  ///< elsewhere: one plain line at a time
  std::function<Clock::time_point()> now = Clock::now;
  std::function<int()> columns = {};  ///< width of the terminal, asked at each draw; null = ask the terminal
};

/// Shows progress as one line: redrawn in place on a terminal, a plain line from time to time elsewhere. Thread-safe.
/// Ignores write errors: nobody may be watching any more, and training goes on.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOptions options = {});
  /// Clears the line from the terminal, so that what is printed next (a prompt, an error) starts on a clean line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `progress`, unless the last redraw is too recent; then it is kept for the next redraw or finish().
  void update(const Progress& progress);

  /// Prints `text` and a newline; the progress line, if shown, moves below it.
  void print_above(std::string_view text);

  /// Clears the line from the terminal; the next update may show it again.
  void clear();

  /// Shows the latest progress at once and leaves it on the screen, with the cursor below it.
  void finish();

 private:
  void draw() TRIREME_REQUIRES(mutex_);               // needs progress_
  std::string line() const TRIREME_REQUIRES(mutex_);  // needs progress_
  void write(std::string_view text) TRIREME_REQUIRES(mutex_);

  const ProgressOptions options_;
  const bool terminal_;

  Mutex mutex_;  // also serialises writes
  std::optional<Progress> progress_ TRIREME_GUARDED_BY(mutex_);
  std::optional<ProgressOptions::Clock::time_point> drawn_at_ TRIREME_GUARDED_BY(mutex_);
  bool pending_ TRIREME_GUARDED_BY(mutex_) = false;  // progress_ is newer than what is shown
  bool shown_ TRIREME_GUARDED_BY(mutex_) = false;    // a line is on the terminal, with the cursor at its end
};

}  // namespace trireme::observe
