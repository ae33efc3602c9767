#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "dash/top_screen.h"
#include "launch/job/running_job.h"
#include "launch/signal_watcher.h"
#include "observe/progress.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

struct TopFlags {
  std::string run;
  double every = 1;
  bool once = false;
};

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

dash::TopOptions screen(const observe::RunFolder& folder) {
  dash::TopOptions options{.run = folder.path().filename().string()};
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.columns = size.ws_col;
    options.rows = size.ws_row - 1;
  } else {
    options.columns = 120;
    options.rows = 1000;
  }
  options.colour = ::isatty(STDOUT_FILENO) != 0 && observe::colour_wanted(std::getenv("NO_COLOR"), std::getenv("TERM"));
  return options;
}

/// Shows the run until it ends. A master that does not answer is being replaced: the next look finds its successor.
int show_top(const TopFlags& flags) {
  const auto folder = observe::RunFolder::open(flags.run);
  const bool live = ::isatty(STDOUT_FILENO) != 0 && !flags.once;
  auto job = std::make_unique<launch::RunningJob>(folder.path());
  dash::LogLines lines(folder.logs(), /*events_only=*/true);
  dash::RunHistory history;
  launch::SignalWatcher signals;
  for (;;) {
    for (const dash::LogLine& line : lines.next()) {
      if (const auto event = dash::parse_event(line)) history.add(*event);
    }
    try {
      if (!job) job = std::make_unique<launch::RunningJob>(folder.path());
      const cluster::JobStatus status = job->status();
      const std::string text = dash::render_top(status, history, wall_time(), screen(folder));
      fmt::print("{}{}", live ? "\x1b[H\x1b[2J" : "", text);
      std::fflush(stdout);
      if (status.state == cluster::JobPhase::kFinished || status.state == cluster::JobPhase::kFailed) return 0;
    } catch (const Error&) {
      if (!folder.held()) return 0;  // it has ended: trireme status tells how
      job.reset();
    }
    if (flags.once) return 0;
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(flags.every * 1000));
    if (signals.take() != launch::StopRequest::kNone) return 0;
  }
}

}  // namespace

void add_top(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("top", "watch a run that goes on, in the terminal");
  auto flags = std::make_shared<TopFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  add_number(*command, "--every", flags->every, "seconds between two looks", {.least = 0.05})->capture_default_str();
  command->add_flag("--once", flags->once, "print one screen and end");
  command->footer("Example: trireme top runs/first");
  command->callback([flags, &action] { action = [flags] { return show_top(*flags); }; });
}

}  // namespace trireme::cli
