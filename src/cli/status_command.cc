#include <memory>

#include "cli/commands.h"
#include "launch/running_job.h"
#include "observe/run_folder.h"

namespace trireme::cli {
namespace {

struct StatusFlags {
  std::string run;
  bool json = false;
};

/// "0, 2"; "none".
std::string list(const std::vector<std::uint32_t>& slots) {
  return slots.empty() ? "none" : fmt::format("{}", fmt::join(slots, ", "));
}

/// How far it has got: of a loop of unknown length its steps, and what it reports.
std::string describe_progress(const cluster::JobStatus& status) {
  if (status.plan.steps > 0) {
    return fmt::format("step {} of {} (epoch {:.2f}), {:.0f} samples/s, loss {:.4f}", status.now.step,
                       status.plan.steps, status.now.epoch, status.now.samples_per_s, status.now.loss);
  }
  std::string text = fmt::format("step {}", status.now.step);
  for (const auto& [name, value] : status.averages) text += fmt::format(", {} {:.4g}", name, value);
  return text;
}

void print(const cluster::JobStatus& status) {
  fmt::print("{}: {}\n", to_string(status.state), status.reason);
  fmt::print("{}\n", describe_progress(status));
  fmt::print("workers: {} (of {} wanted)\n", list(status.workers), status.wanted_workers);
  if (!status.others.empty()) fmt::print("not working yet, or in reserve: {}\n", list(status.others));
  if (status.wanted_servers > 0) {
    fmt::print("servers: {} (of {} wanted)\n", list(status.servers), status.wanted_servers);
  }
  if (!status.stragglers.empty()) fmt::print("slow: {}\n", cluster::describe(status.stragglers));
  if (status.copies_due > 0) {
    fmt::print("{} shards of the parameters have no replica yet: they would be lost with their server\n",
               status.copies_due);
  }
}

int show_status(const StatusFlags& flags) {
  const cluster::JobStatus status = launch::RunningJob(observe::RunFolder::open(flags.run).path()).status();
  if (flags.json) {
    fmt::print("{}\n", nlohmann::json(status).dump());
  } else {
    print(status);
  }
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("status", "the state of a job that is running, and its members");
  auto flags = std::make_shared<StatusFlags>();
  command->add_option("run", flags->run, "its folder")->required();
  command->add_flag("--json", flags->json, "all that the master knows, as one line of JSON");
  command->footer("Example: trireme status runs/first");
  command->callback([flags, &action] { action = [flags] { return show_status(*flags); }; });
}

}  // namespace trireme::cli
