#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/train_flags.h"
#include "launch/job_runner.h"

namespace trireme::cli {
namespace {

struct RunFlags {
  TrainFlags job;  ///< of which `trireme run` has those in kShared
  std::vector<std::string> program;
};

const std::vector<SharedFlag> kShared{
    {"--workers", "how many processes of the program; 2:8: at most 8, and the job waits while there are fewer than 2"},
    {"--restarts"},
    {"--wait-for-workers"},
    {"--max-views"},
    {"--servers", "how many parameter servers; 0: the program uses none", /*show_default=*/true},
    {"--replicas"},
    {"--transport"},
    {"--throttle", "experiments: limit links to this speed, such as 100mbit; over TCP"},
    {"--latency-ms", "experiments: delay everything that workers send each other in the background by this much"},
    {"--trace-algorithms"},
    {"--out", "run folder; runs/<time>-<program> unless given"},
    {"--overwrite"},
    {"--json", "print the chief's result as one line of JSON at the end"}};

int run(const RunFlags& flags) {
  if (flags.program.empty()) {
    fail<InvalidArgument>("which program? trireme run -w 2 -s 1 -- ./my_program --its-own-flags");
  }
  TrainFlags settled = flags.job;
  settle_workers(settled);
  check_each(settled);
  const std::string name = std::filesystem::path(flags.program.front()).filename().string();
  const auto folder = observe::RunFolder::create({.path = settled.out, .model = name, .overwrite = settled.overwrite});
  launch::JobSpec job = to_job(settled);
  job.worker_argv = flags.program;
  job.echo_chief = true;
  const launch::JobOutcome outcome = launch::run_job(job, folder);
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
  } else if (settled.json) {
    fmt::print("{}\n", (outcome.result.is_null() ? nlohmann::json::object() : outcome.result).dump());
  } else {
    fmt::print("the run is in {}\n", folder.path().string());
  }
  return outcome.status;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "run a program of your own as the workers of a job");
  auto flags = std::make_shared<RunFlags>();
  declare_shared(*command, flags->job, kShared);
  command->add_option("program", flags->program, "the program and its own flags, after --");
  command->prefix_command();
  command->footer("Example: trireme run -w 4 -s 2 -- ./my_program --its-own-flags");
  command->callback([command, flags, &action] {
    std::vector<std::string> words = command->remaining();
    if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end())
      words.erase(dashes);  // the first is ours
    flags->program.insert(flags->program.end(), words.begin(), words.end());
    action = [flags] { return run(*flags); };
  });
}

}  // namespace trireme::cli
