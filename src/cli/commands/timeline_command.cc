#include <memory>
#include <thread>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "dash/aligned_timeline.h"
#include "launch/job/running_job.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

constexpr auto kAnswerWithin = 3s;  // members are asked with their next heartbeat

struct TimelineFlags {
  std::string run;
  std::uint32_t steps = 5;
  std::string out = "timeline.json";
};

/// Waits until all have answered; of one that hangs there is no answer.
cluster::CollectedSpans collect(launch::RunningJob& job, std::uint32_t steps) {
  const std::uint64_t request = job.record(steps);
  for (const Deadline deadline = Deadline::in(kAnswerWithin);;) {
    cluster::CollectedSpans spans = job.recorded(request);
    if (!spans.known) fail<StaleView>("another timeline was asked for at the same time: try again");
    if (spans.missing.empty() || deadline.passed()) return spans;
    std::this_thread::sleep_for(50ms);
  }
}

/// How well the clock of a process is known, for people.
std::string describe_clock(std::int64_t error) {
  if (error >= dash::kUnknownClock) return "its clock is not known: it answered too rarely";
  return fmt::format("clock known to ±{:.1f} µs", static_cast<double>(error) / 1000);
}

int save_timeline(const TimelineFlags& flags) {
  launch::RunningJob job(observe::RunFolder::open(flags.run).path());
  const dash::AlignedTimeline timeline(collect(job, flags.steps));
  write_file_atomically(flags.out, as_bytes(timeline.to_trace().dump() + "\n"));
  const auto& collected = timeline.collected();
  for (std::size_t i = 0; i < collected.reports.size(); ++i) {
    const cluster::SpanReport& report = collected.reports[i];
    fmt::print("{:12} {:>6} spans, {}\n", report.process, report.recording.spans.size(),
               describe_clock(timeline.alignment().errors[i]));
  }
  if (timeline.alignment().contradiction) {
    fmt::print("the clocks contradict what happened before what, as if one had been set back: spans may be shifted\n");
  }
  if (!collected.missing.empty()) fmt::print("no answer from {}\n", fmt::join(collected.missing, ", "));
  fmt::print("{}: open it in ui.perfetto.dev, or chrome://tracing\n", flags.out);
  return 0;
}

}  // namespace

void add_timeline(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("timeline", "what all processes of a run did in their last steps, on one clock, for Perfetto");
  auto flags = std::make_shared<TimelineFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  add_number(*command, "--steps", flags->steps, "how many of the last steps", {.least = 1})->capture_default_str();
  command->add_option("-o,--out", flags->out, "the file to write")->capture_default_str();
  command->footer(
      "Example: trireme timeline runs/first --steps 3\nOf a whole run, from its beginning: trireme train --timeline");
  command->callback([flags, &action] { action = [flags] { return save_timeline(*flags); }; });
}

}  // namespace trireme::cli
