#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/config_file.h"
#include "cli/run_program.h"
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
    {"--trace-steps", "write steps-<worker>-<pid>.log: when each step of a dist::State began and took effect"},
    {"--out", "run folder; runs/<time>-<program> unless given"},
    {"--overwrite"},
    {"--json", "print the chief's result as one line of JSON at the end"}};

/// A program that was named by its path is found from any folder later.
std::vector<std::string> found_again(std::vector<std::string> program) {
  if (program.front().find('/') == std::string::npos) return program;
  program.front() = std::filesystem::absolute(program.front()).lexically_normal().string();
  return program;
}

/// Runs the program in `existing`, or in a new folder that the flags name.
int run(const RunFlags& flags, const std::string& config, std::optional<observe::RunFolder> existing = {}) {
  if (flags.program.empty()) {
    fail<InvalidArgument>("which program? trireme run -w 2 -s 1 -- ./my_program --its-own-flags");
  }
  TrainFlags settled = flags.job;
  settle_workers(settled);
  check_each(settled);
  const std::string name = std::filesystem::path(flags.program.front()).filename().string();
  const auto folder =
      existing ? *existing
               : observe::RunFolder::create({.path = settled.out, .model = name, .overwrite = settled.overwrite});
  write_file_atomically(folder.config(), as_bytes(config));
  write_file_atomically(folder.program(), as_bytes(nlohmann::json(found_again(flags.program)).dump() + "\n"));
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

bool is_shared(const std::string& name) {
  return std::ranges::any_of(kShared, [&](const SharedFlag& flag) { return flag.name == name; });
}

}  // namespace

bool holds_program(const observe::RunFolder& folder) { return std::filesystem::exists(folder.program()); }

Action resume_program(CLI::App& command, const std::shared_ptr<TrainFlags>& flags, const observe::RunFolder& folder) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !name.starts_with("--") || name == "--from" || is_shared(name)) continue;
    fail<InvalidArgument>("{} is a flag of 'trireme train': {} is a run of a program of your own, which has its own",
                          name, folder.path().string());
  }
  apply_config_file(command, folder.config().string());
  auto all = std::make_shared<RunFlags>();
  all->job = *flags;
  all->program = nlohmann::json::parse(read_file(folder.program())).get<std::vector<std::string>>();
  return [all, folder, config = read_file(folder.config())] { return run(*all, config, folder); };
}

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "run a program of your own as the workers of a job");
  auto flags = std::make_shared<RunFlags>();
  declare_shared(*command, flags->job, kShared);
  command->add_option("program", flags->program, "the program and its own flags, after --")->configurable(false);
  command->prefix_command();
  command->footer("Example: trireme run -w 4 -s 2 -- ./my_program --its-own-flags");
  command->callback([command, flags, &action] {
    std::vector<std::string> words = command->remaining();
    if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end())
      words.erase(dashes);  // the first is ours
    flags->program.insert(flags->program.end(), words.begin(), words.end());
    action = [flags, config = config_text(*command)] { return run(*flags, config); };
  });
}

}  // namespace trireme::cli
