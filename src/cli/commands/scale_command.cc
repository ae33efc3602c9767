#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "launch/job/running_job.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

struct ScaleFlags {
  std::string run;
  std::uint32_t workers = 0;
  std::uint32_t servers = 0;
};

std::string counted(std::uint32_t count, const std::string& what) {
  return count == 0 ? "" : fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

int scale(const ScaleFlags& flags) {
  if (flags.workers == 0 && flags.servers == 0) {
    fail<InvalidArgument>("how many? trireme scale {} 4, or --servers 2", flags.run);
  }
  launch::RunningJob(observe::RunFolder::open(flags.run).path())
      .scale({.workers = flags.workers, .servers = flags.servers});
  const bool both = flags.workers > 0 && flags.servers > 0;
  fmt::print("{}: asked for {}{}{}\n", flags.run, counted(flags.workers, "worker"), both ? " and " : "",
             counted(flags.servers, "server"));
  return 0;
}

}  // namespace

void add_scale(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("scale", "change the number of workers or servers of a job that is running");
  auto flags = std::make_shared<ScaleFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  add_number(*command, "workers", flags->workers, "how many there should be; at most one per lane computes gradients",
             {.least = 1});
  add_number(*command, "-s,--servers", flags->servers, "how many parameter servers there should be", {.least = 1});
  command->footer("Examples:\n  trireme scale runs/first 4\n  trireme scale runs/first --servers 3");
  command->callback([flags, &action] { action = [flags] { return scale(*flags); }; });
}

}  // namespace trireme::cli
