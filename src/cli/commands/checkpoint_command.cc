#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "dash/log_lines.h"
#include "launch/job/running_job.h"
#include "observe/run_folder.h"
#include "observe/tensorboard.h"

namespace trireme::cli {
namespace {

constexpr double kLogResolution = 1e-3;  // seconds: of the times in logs

struct CheckpointFlags {
  std::string run;
  std::uint32_t within = 60;
};

/// What became of a checkpoint that was asked for, as the logs of the run say.
class CheckpointWatch {
 public:
  /// `own_view`: workers save it at the beginning of a view, else as soon as they pause.
  CheckpointWatch(const observe::RunFolder& run, bool own_view)
      : lines_(run.logs(), /*events_only=*/true, dash::kRecentBytes),
        asked_(observe::unix_time() - kLogResolution),
        own_view_(own_view) {}

  /// Prints the outcome and returns the exit status; nullopt = nothing yet.
  std::optional<int> outcome() {
    for (const dash::LogLine& line : lines_.next()) {
      const auto event = dash::parse_event(line);
      if (event && line.time >= asked_) since_.push_back(*event);  // not of one that was made before
    }
    // The logs are read one after the other: that a view was formed may be read after what came of it.
    std::ranges::stable_sort(since_, {}, &dash::LogEvent::time);
    bool begun = !own_view_;
    for (const dash::LogEvent& event : since_) {
      if (event.key == "view_formed" && event.text("saves") == "true") begun = true;
      if (!begun) continue;
      if (event.key == "checkpoint_written") {
        fmt::print("checkpoint of step {}: {} bytes, training paused for {:.3f} s\n", event.text("step"),
                   event.text("bytes"), event.number("pause_s"));
        return 0;
      }
      if (event.key == "checkpoint_skipped" || event.key == "checkpoint_failed") {
        fmt::print(stderr, "trireme: {}: {}\n", event.message, event.text("reason"));
        return 1;
      }
    }
    return std::nullopt;
  }

 private:
  dash::LogLines lines_;
  const double asked_;
  const bool own_view_;
  std::vector<dash::LogEvent> since_;  // what was logged since then
};

int ask_for_checkpoint(const CheckpointFlags& flags) {
  const auto folder = observe::RunFolder::open(flags.run);
  launch::RunningJob job(folder.path());
  CheckpointWatch watch(folder, !job.status().plan.leased);
  job.checkpoint("asked by trireme checkpoint");
  for (const Deadline deadline = Deadline::in(std::chrono::seconds(flags.within)); !deadline.passed();) {
    if (const auto outcome = watch.outcome()) return *outcome;
    std::this_thread::sleep_for(20ms);
  }
  fail<Timeout>("no checkpoint was written within {} s; 'trireme log {}' may tell why", flags.within, flags.run);
}

}  // namespace

void add_checkpoint_now(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("checkpoint", "save the state of a job that is running now, after its current step");
  auto flags = std::make_shared<CheckpointFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  add_number(*command, "--within", flags->within, "seconds to wait until it is written", {.least = 1})
      ->capture_default_str();
  command->footer("Example: trireme checkpoint runs/first\nWhat there is: trireme ckpt ls runs/first");
  command->callback([flags, &action] { action = [flags] { return ask_for_checkpoint(*flags); }; });
}

}  // namespace trireme::cli
