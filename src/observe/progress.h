#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/types.h"

#include "base/mutex.h"

namespace trireme::observe {

/// Where a run stands. NaN means "not known" and is shown as "–".
struct Progress {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  double epoch = kUnknown;   ///< epochs finished, with fraction
  std::uint64_t epochs = 0;  ///< 0 = no limit
  Step step = 0;
  Step steps = 0;  ///< 0 = no limit
  double samples_per_s = kUnknown;
  double loss = kUnknown;
  double accuracy = kUnknown;  ///< 0 to 1
  Step clock_min = 0;          ///< clocks of the slowest and the fastest worker; both 0 = left out
  Step clock_max = 0;
  double seconds_left = kUnknown;

  /// A loop of one's own, whose length nobody knows: only steps, their rate and what the program averages are shown.
  bool open_ended = false;
  double steps_per_s = kUnknown;
  std::map<std::string, double> averages = {};
  std::string note = {};  ///< a few words: what is being waited for, who was lost
};

struct ProgressStyle {
  bool bar = true;
  bool colour = false;  ///< the done part of the bar in green; nothing else
};

/// One line, without line break, never wider than `columns`: as it gets narrow, the parts are put in fewer words, the
/// bar shrinks, then the least important parts are left out. The percentage goes by steps if their number is known,
/// else by epochs.
std::string render_progress(const Progress& progress, int columns, ProgressStyle style = {});

/// Whether to use colour, from the values of the environment variables NO_COLOR (see no-color.org) and TERM; null = not
/// set. The caller reads the environment: nothing in this folder does.
bool colour_wanted(const char* no_color, const char* term);

struct ProgressOptions {
  using Clock = std::chrono::steady_clock;

  int descriptor = 2;                           ///< where to write; borrowed
  std::optional<bool> terminal = {};            ///< nothing = find out
  bool colour = false;                          ///< see colour_wanted; only ever used on a terminal
  std::chrono::milliseconds redraw_every{100};  ///< on a terminal
  std::chrono::milliseconds print_every{5000};  ///< elsewhere: one plain line at a time
  std::function<Clock::time_point()> now = Clock::now;
  std::function<int()> columns = {};  ///< width of the terminal, asked at each draw; null = ask the terminal
};

/// Shows progress as one line: redrawn in place on a terminal, a plain line now and then elsewhere. Any thread may
/// call. Errors of writing are ignored: nobody may be watching any more, and training goes on.
class ProgressLine {
 public:
  explicit ProgressLine(ProgressOptions options = {});
  /// Takes the line off the terminal, so that what is printed next (a prompt, an error) begins on a clean line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows `progress`, unless the last drawing is too recent; then it is kept for the next drawing or finish().
  void update(const Progress& progress);

  /// Prints `text` and a line break; the progress line, if shown, moves below it.
  void print_above(std::string_view text);

  /// Takes the line off the terminal; the next update may show it again.
  void clear();

  /// Shows the latest progress whatever the time and leaves it standing; the cursor is then below it.
  void finish();

 private:
  void draw() TRIREME_REQUIRES(mutex_);               // needs progress_
  std::string line() const TRIREME_REQUIRES(mutex_);  // needs progress_
  void write(std::string_view text) TRIREME_REQUIRES(mutex_);

  const ProgressOptions options_;
  const bool terminal_;

  Mutex mutex_;  // also for the order of writing
  std::optional<Progress> progress_ TRIREME_GUARDED_BY(mutex_);
  std::optional<ProgressOptions::Clock::time_point> drawn_at_ TRIREME_GUARDED_BY(mutex_);
  bool pending_ TRIREME_GUARDED_BY(mutex_) = false;  // progress_ is newer than what was drawn
  bool shown_ TRIREME_GUARDED_BY(mutex_) = false;    // a line stands on the terminal, the cursor at its end
};

}  // namespace trireme::observe
