#include <poll.h>

#include <cstdio>
#include <memory>

#include "base/log.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "dash/dashboard.h"
#include "launch/signal_watcher.h"
#include "observe/run_folder.h"
#include "observe/text_width.h"

namespace trireme::cli {
namespace {

struct LogFlags {
  std::string run;
  bool follow = false;
  std::string process;
  std::string level;
  std::uint64_t last = 0;
};

/// Lines of the library name their process; those that a program printed get it in front.
void print_line(const dash::LogLine& line) {
  const std::string text = observe::printable(line.text);
  if (line.level.empty()) {
    fmt::print("{:32} [{}] {}\n", "", line.process, text);
  } else {
    fmt::print("{}\n", text);
  }
}

int show_log(const LogFlags& flags) {
  if (!flags.level.empty()) parse_log_level("--level", flags.level);
  const auto folder = observe::RunFolder::open(flags.run);
  constexpr std::uint64_t kMostRecent = 50'000;  // lines; more, and lines of a level, may be older than what is recent
  const bool all = flags.last == 0 || flags.last > kMostRecent || !flags.level.empty();
  dash::LogLines lines(folder.logs(), /*events_only=*/false, all ? ~std::uint64_t{0} : dash::kRecentBytes);
  launch::SignalWatcher signals;
  const std::size_t last = flags.last == 0 ? ~std::size_t{0} : flags.last;
  for (const dash::LogLine& line : dash::select_lines(lines.next(), flags.level, flags.process, last)) print_line(line);
  while (flags.follow) {
    std::fflush(stdout);
    const bool over = !folder.held();
    for (const dash::LogLine& line : lines.next()) {
      if (dash::selected(line, flags.level, flags.process)) print_line(line);
    }
    if (over) break;  // what came until then is printed
    pollfd waiting{signals.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, 200);
    if (signals.take() != launch::StopRequest::kNone) break;
  }
  return 0;
}

}  // namespace

void add_log(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("log", "the logs of all processes of a run, in order of time");
  auto flags = std::make_shared<LogFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  command->add_flag("-f,--follow", flags->follow, "go on as the logs grow, until the run ends");
  command->add_option("-p,--process", flags->process, "only this role or process: worker, 'worker 1', master");
  command->add_option("-l,--level", flags->level, "the least level: debug, info, warning or error");
  add_number(*command, "-n,--last", flags->last, "only so many lines of what is there already; 0: all");
  command->footer("Example: trireme log runs/first -f -l warning");
  command->callback([flags, &action] { action = [flags] { return show_log(*flags); }; });
}

}  // namespace trireme::cli
