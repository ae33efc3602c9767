#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "cli/flags/config_file.h"
#include "cli/flags/declare_flag.h"
#include "cli/model/init_model.h"
#include "cli/remote/remote_start.h"
#include "cli/start/crowding.h"
#include "cli/start/foreign_start.h"
#include "cli/start/origin.h"
#include "cli/start/run_program.h"
#include "launch/job/job_runner.h"
#include "launch/process.h"

namespace trireme::cli {
namespace {

struct RunFlags {
  TrainFlags job;  ///< of which `trireme run` has those in kShared and kForTrainers
  std::vector<std::string> program;
  std::string train_options = {};  ///< of kForTrainers, those that were given
  std::string init = {};           ///< what to tell about --init
  bool resume = false;
  std::uint32_t whole_restarts = 0;  ///< of all processes together, where the loop cannot go on without one
};

const std::vector<SharedFlag> kShared{
    {"--workers", "how many processes of the program; 2:8: at most 8, and the job waits while there are fewer than 2"},
    {"--restarts",
     "how often a process that dies is restarted before it is left alone for a minute; 0: never. A loop that cannot go "
     "on without one (dist::init without dist::elastic) fails, or, if this is given, is started again as a whole",
     /*show_default=*/true},
    {"--wait-for-workers"},
    {"--max-views"},
    {"--servers", "how many parameter servers; 0: the program uses none", /*show_default=*/true},
    {"--servers-per-host"},
    {"--hosts"},
    {"--hostfile"},
    {"--discover"},
    {"--replicas"},
    {"--transport"},
    {"--throttle", "experiments: limit links to this speed, such as 100mbit; over TCP"},
    {"--latency-ms", "experiments: delay everything that workers send each other in the background by this much"},
    {"--trace-algorithms"},
    {"--trace-steps",
     "write steps-<worker>-<pid>.log: when each step of a Trainer or dist::State began and took effect"},
    {"--log-level"},
    {"--dash"},
    {"--dash-cert"},
    {"--metrics"},
    {"--on-event"},
    {"--out", "run folder; runs/<time>-<program> unless given"},
    {"--overwrite"},
    {"--json", "print the result as one line of JSON at the end, and nothing else, on standard output"}};

constexpr const char* kTrainers = "For programs with a Trainer, instead of their own choice";

/// A flag that is not given is the program's business: none has a default here.
const std::vector<SharedFlag> kForTrainers = [] {
  std::vector<SharedFlag> flags;
  for (const char* name :
       {"--init", "--init-prefix", "--strategy", "--consistency", "--codec", "--lanes", "--batch", "--epochs",
        "--steps", "--lr", "--schedule", "--accumulate", "--balance", "--threads", "--checkpoint-every",
        "--keep-checkpoints", "--checkpoint-rate", "--log-every", "--timeline"}) {
    flags.push_back({.name = name, .show_default = false, .group = kTrainers});
  }
  return flags;
}();

/// A program that was named by its path is found from any folder later.
std::vector<std::string> found_again(std::vector<std::string> program) {
  if (program.front().find('/') == std::string::npos) return program;
  program.front() = std::filesystem::absolute(program.front()).lexically_normal().string();
  return program;
}

void tell_end(const launch::JobOutcome& outcome, const observe::RunFolder& folder, bool as_json) {
  const std::string run = folder.path().string();
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
  } else if (outcome.status != 0) {
    fmt::print(stderr, "trireme: stopped before there was a result; logs: {}\n", folder.logs().string());
  } else if (as_json) {
    nlohmann::json line = outcome.result.is_null() ? nlohmann::json::object() : outcome.result;
    line["run"] = run;
    fmt::print("{}\n", line.dump());
  } else {
    fmt::print("the run is in {}\n", run);
  }
}

/// Runs the job, and runs it again where its loop cannot go on without a process that died.
launch::JobOutcome run_again_and_again(const launch::JobSpec& job, const observe::RunFolder& folder,
                                       std::uint32_t restarts) {
  for (std::uint32_t made = 0;;) {
    launch::JobOutcome outcome = launch::run_job(job, folder);
    if (!outcome.may_repeat || made == restarts) return outcome;
    fmt::print(stderr,
               "trireme: {}\ntrireme: all processes are started again ({} of --restarts {}): the program goes on from "
               "what it saved itself\n",
               outcome.failure, ++made, restarts);
  }
}

/// Runs the program in `existing`, or in a new folder that the flags name.
int run(const TrainFlags& settled, const RunFlags& flags, const std::string& config,
        std::optional<observe::RunFolder> existing = {}, const std::optional<ForeignStart>& start = {},
        RemoteStart* remote = nullptr) {
  if (flags.program.empty()) {
    fail<InvalidArgument>("which program? trireme run -w 2 -s 1 -- ./my_program --its-own-flags");
  }
  launch::check_program(flags.program.front());
  launch::JobSpec job = to_job(settled);
  job.worker_argv = flags.program;
  job.echo_chief = true;
  job.threads = settled.threads;
  job.train_options = flags.train_options;
  if (start && !start->plan.leads) return run_beside(job, *start, settled);
  if (start && !settled.json) fmt::print("{}\n", describe(*start));
  const std::string name = std::filesystem::path(flags.program.front()).filename().string();
  const auto folder =
      existing ? *existing
               : observe::RunFolder::create({.path = settled.out, .model = name, .overwrite = settled.overwrite});
  write_file_atomically(folder.config(), as_bytes(config));
  write_file_atomically(folder.program(), as_bytes(nlohmann::json(found_again(flags.program)).dump() + "\n"));
  if (!flags.init.empty() && !settled.json) {
    fmt::print("{}\n", flags.init);
    std::fflush(stdout);  // before what the program prints
  }
  if (!start && remote == nullptr) warn_of_crowding(settled.workers, settled.threads);
  std::optional<cluster::LaunchedPlace> place;
  if (start) {
    place = take_part_of(*start, settled);
    job.part = to_part(*place, folder.path());
  }
  if (remote != nullptr) remote->prepare(job, folder);
  const launch::JobOutcome outcome = run_again_and_again(job, folder, start ? 0 : flags.whole_restarts);
  if (place) cluster::withdraw(*place);
  tell_end(outcome, folder, settled.json);
  return outcome.status;
}

/// All processes of a loop that never said that it can be repeated are started again only by those who ask for it.
std::uint32_t given_restarts(const CLI::App& command, const TrainFlags& flags) {
  return command.get_option("--restarts")->count() > 0 ? flags.restarts : 0;
}

bool is_of_run(const std::string& name) {
  const auto named = [&](const SharedFlag& flag) { return flag.name == name; };
  return std::ranges::any_of(kShared, named) || std::ranges::any_of(kForTrainers, named);
}

std::vector<std::string> program_of(const observe::RunFolder& folder) {
  return nlohmann::json::parse(read_file(folder.program())).get<std::vector<std::string>>();
}

/// Settles --init for a run that begins. One that goes on from a checkpoint, in `existing`, starts from no other model:
/// throws InvalidArgument.
void settle_init_of(RunFlags& flags, const CLI::App& command, const std::optional<observe::RunFolder>& existing) {
  if (!existing || !newest_step(*existing).has_value()) {
    flags.init = settle_init(flags.job);
    return;
  }
  const std::string config = existing->config().string();
  TrainFlags before = flags.job;
  before.init = config_value(config, "init");
  before.init_prefix = config_value(config, "init-prefix");
  check_continues(command, flags.job, before);
}

/// The folder of the run that `trireme run --resume` continues; nullopt if there is none yet.
std::optional<observe::RunFolder> folder_to_resume(const TrainFlags& flags) {
  if (flags.out.empty()) fail<InvalidArgument>("--resume: which run? Give its folder with --out");
  if (flags.overwrite) fail<InvalidArgument>("--resume and --overwrite: either continue the run, or replace it");
  if (!std::filesystem::is_directory(flags.out)) return std::nullopt;
  const auto folder = observe::RunFolder::reopen(flags.out);
  if (holds_program(folder)) return folder;
  if (folder.run_files().empty()) return std::nullopt;
  fail<InvalidArgument>("{} is no run of a program of your own: continue it with 'trireme resume {}'", flags.out,
                        flags.out);
}

}  // namespace

bool holds_program(const observe::RunFolder& folder) { return std::filesystem::exists(folder.program()); }

TrainFlags settle_program(CLI::App& command, TrainFlags flags) {
  const auto given = [&](const char* name) { return command.get_option(name)->count() > 0; };
  settle_workers(flags);
  check_each(flags);
  if (given("--lanes") && flags.lanes < flags.workers) {
    fail<InvalidArgument>("--lanes {} for {} workers: each worker needs at least one lane", flags.lanes, flags.workers);
  }
  if (!given("--strategy")) return flags;
  const bool needs_servers = uses_servers(flags);
  set_unless_given(command, "--servers", flags.servers, needs_servers ? 1u : 0u);
  if (needs_servers && flags.servers == 0) {
    fail<InvalidArgument>("--servers 0: --strategy {} needs a server for the parameters; allreduce needs none",
                          flags.strategy);
  }
  return flags;
}

void declare_program(CLI::App& command, std::vector<std::string>& program) {
  command.add_option("program", program, "the program and its own flags, after --")->configurable(false);
  command.positionals_at_end();  // all that follows the program's name is the program's
}

void check_flags_of_run(const CLI::App& command, const std::set<std::string>& others, const std::string& why) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !name.starts_with("--") || others.contains(name)) continue;
    if (!is_of_run(name)) fail<InvalidArgument>("{} is a flag of 'trireme train': {}", name, why);
  }
}

std::vector<std::string> given_flags_of_run(const CLI::App& command) {
  std::vector<std::string> words;
  const std::set<std::string> not_passed_on = flags_of_one_launch();
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || !is_of_run(name) || not_passed_on.contains(option->get_lnames().front())) continue;
    const bool no_value = option->get_expected_max() == 0;
    words.push_back(no_value ? name + "=" + option->results().back() : name);
    if (!no_value) words.push_back(option->results().back());
  }
  return words;
}

Action resume_program(CLI::App& command, const std::shared_ptr<TrainFlags>& flags, const observe::RunFolder& folder) {
  check_flags_of_run(command, {"--from"},
                     folder.path().string() + " is a run of a program of your own, which has its own");
  if (find_foreign_start(*flags) || RemoteStart::open(*flags)) {
    fail<InvalidArgument>(
        "a program of your own continues on other hosts, or under another launcher, by: trireme run --resume --out {}",
        folder.path().string());
  }
  auto all = std::make_shared<RunFlags>();
  all->whole_restarts = given_restarts(command, *flags);
  apply_config_file(command, folder.config().string(), flags_of_one_launch());
  all->job = *flags;
  all->program = program_of(folder);
  settle_init_of(*all, command, folder);
  all->train_options = given_as_json(command, all->job, kForTrainers);
  return [all, folder, settled = settle_program(command, all->job), config = read_file(folder.config())] {
    return run(settled, *all, config, folder);
  };
}

void add_run(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("run", "run a program of your own as the workers of a job");
  auto flags = std::make_shared<RunFlags>();
  declare_shared(*command, flags->job, kShared);
  command
      ->add_flag(
          "--resume", flags->resume,
          "continue the run that is in --out, if there is one; what is not given, even the program, is the run's")
      ->configurable(false);
  declare_shared(*command, flags->job, kForTrainers);
  declare_program(*command, flags->program);
  command->footer("Example: trireme run -w 4 -s 2 -- ./my_program --its-own-flags");
  command->callback([command, flags, &action] {
    auto start = find_foreign_start(flags->job);
    if (start) adopt(*start, *command, flags->job);
    const auto remote = RemoteStart::open(flags->job);
    if (remote && start) fail<InvalidArgument>("--hosts: {} has started this already", to_string(start->launcher));
    if (remote) remote->adopt(*command, flags->job);
    flags->whole_restarts = given_restarts(*command, flags->job);
    const bool beside = start && !start->plan.leads;  // the folder is another process's business
    const auto existing =
        flags->resume && !beside ? folder_to_resume(flags->job) : std::nullopt;  // held until the run has ended
    if (existing) apply_config_file(*command, existing->config().string(), flags_of_one_launch());
    if (existing && flags->program.empty()) flags->program = program_of(*existing);
    settle_init_of(*flags, *command, existing);
    flags->train_options = given_as_json(*command, flags->job, kForTrainers);
    for (const SharedFlag& flag : kForTrainers) {  // what was not given stays the program's business when it continues
      CLI::Option* option = command->get_option(flag.name);
      option->configurable(option->count() > 0);
    }
    action = [flags, existing, start, remote, settled = settle_program(*command, flags->job),
              config = config_text(*command)] {
      if (existing) tell_origin(*existing);
      return run(settled, *flags, config, existing, start, remote.get());
    };
  });
}

}  // namespace trireme::cli
