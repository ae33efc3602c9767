#include <cmath>
#include <cstdio>
#include <memory>

#include "trireme/sampler.h"

#include "base/error.h"
#include "base/file.h"
#include "chaos/chaos_run.h"
#include "cli/commands/commands.h"
#include "cli/flags/config_file.h"
#include "cli/flags/declare_flag.h"
#include "cli/flags/numbers.h"
#include "cli/flags/train_flags.h"
#include "cli/start/run_program.h"
#include "cluster/strategy_choice.h"
#include "launch/process.h"
#include "observe/run_folder.h"
#include "ps/consistency.h"

namespace trireme::cli {
namespace {

constexpr const char* kOwn = "trireme chaos -w 3 -s 0 --count 5 -- ./my_program --its-own-flags";
constexpr const char* kFaults = "Faults";  // their heading in the help

constexpr std::uint32_t kRestarts = 1000;  // processes that die here are not at fault

struct ChaosFlags {
  TrainFlags train;
  std::vector<std::string> program;    ///< of one's own; empty: `trireme train`
  std::vector<std::string> run_flags;  ///< for `trireme run` with it
  std::vector<std::string> faults{"kill"};
  std::vector<std::string> roles{"worker"};
  Step every = 20;
  std::uint64_t every_ms = 0;  // 0: by steps
  std::uint32_t count = 10;
  std::uint64_t fault_seed = 1;
  double stop_for = 5;
  double patience = 90;
  bool overlap = false;
  double soak_minutes = 0;
};

std::chrono::milliseconds to_time(double seconds) { return std::chrono::milliseconds(std::lround(seconds * 1000)); }

bool storms(const ChaosFlags& flags) { return flags.every_ms > 0; }

bool leased(const TrainFlags& flags) {
  return !flags.consistency.empty() && !ps::parse_consistency(flags.consistency).synchronous();
}

/// Returns why the flags let a disturbed run end with other bits than an undisturbed one; empty if they do not.
std::string why_not_compared(const ChaosFlags& flags) {
  if (flags.soak_minutes > 0) return "a soak has no fixed number of steps";
  if (flags.train.codec != "none") return "with --codec the bits depend on which workers take part";
  if (flags.train.backup_workers > 0) return "with --backup-workers the bits depend on which workers are fast";
  if (flags.train.time_limit > 0) return "with --time-limit the bits depend on the time";
  return "";
}

chaos::FaultPlanOptions plan_of(const ChaosFlags& flags) {
  chaos::FaultPlanOptions plan{.kinds = {},
                               .roles = {},
                               .clock = storms(flags) ? chaos::FaultClock::kMilliseconds : chaos::FaultClock::kSteps,
                               .every = storms(flags) ? flags.every_ms : flags.every,
                               .count = flags.count,
                               .seed = flags.fault_seed,
                               .workers = flags.train.workers,
                               .servers = flags.train.servers,
                               .spared = flags.soak_minutes > 0 ? 1u : 0u};  // one worker must survive to be observed
  for (const std::string& kind : flags.faults) plan.kinds.push_back(chaos::parse_fault_kind(kind));
  for (const std::string& role : flags.roles) plan.roles.push_back(chaos::parse_fault_role(role));
  return plan;
}

chaos::WorkPlan work_of(const TrainFlags& flags) {
  const auto sampler = std::make_shared<data::Sampler>(data::SamplerConfig{
      .samples = load_data(flags).split.train->size(), .batch = flags.batch, .lanes = flags.lanes, .shuffle = false});
  const cluster::StrategyChoice strategy = cluster::parse_strategy(flags.strategy);
  const bool averages = strategy.kind == cluster::StrategyChoice::Kind::kLocalSgd;
  return {.lanes = flags.lanes,
          .leased = leased(flags),
          .rolls_back = averages || strategy.divides_state() || mesh_of(flags).divides_model(),
          .averages = averages,
          .samples = [sampler](Step step, Lane lane) { return sampler->indices(step, lane).size(); }};
}

/// A training of ours, whose flags are in the file `config`.
chaos::ObservedCommand training_of(const ChaosFlags& flags, const std::string& config) {
  chaos::ObservedCommand command{.words = {"train", "--config", config}, .program = {}};
  if (flags.soak_minutes > 0) command.words.insert(command.words.end(), {"--steps", "1000000000"});
  return command;
}

chaos::ObservedCommand program_of(const ChaosFlags& flags) {
  chaos::ObservedCommand command{.words = {"run"}, .program = flags.program};
  command.words.insert(command.words.end(), flags.run_flags.begin(), flags.run_flags.end());
  return command;
}

/// What is wrong with the flags shows before anything starts.
void check_first(const ChaosFlags& flags) {
  const TrainFlags& train = flags.train;
  if (!train.hosts.empty() || !train.hostfile.empty() || !train.discover.empty() || train.backend == "mpi") {
    fail<InvalidArgument>("--hosts, --hostfile, --discover and --backend mpi: faults are injected on this host only");
  }
  if (flags.program.empty()) return check(flags.train);
  launch::check_program(flags.program.front());
}

int chaos(const ChaosFlags& flags, const std::string& config) {
  const TrainFlags& train = flags.train;
  check_first(flags);
  const chaos::FaultPlanOptions plan = plan_of(flags);
  chaos::FaultPlan{plan};
  const chaos::WorkPlan work = flags.program.empty() ? work_of(train) : chaos::WorkPlan{};
  const auto folder = observe::RunFolder::create({.path = train.out, .model = "chaos", .overwrite = train.overwrite});
  write_file_atomically(folder.config(), as_bytes(config));
  chaos::ChaosOptions options{
      .command = flags.program.empty() ? training_of(flags, folder.config().string()) : program_of(flags),
      .folder = folder.path(),
      .plan = plan,
      .stop_for = to_time(flags.stop_for),
      .patience = to_time(flags.patience),
      .overlap = flags.overlap,
      .soak = to_time(60 * flags.soak_minutes),
      .not_compared = why_not_compared(flags),
      .work = work};
  if (train.overwrite) options.command.words.emplace_back("--overwrite");  // the runs that are in there, too
  if (!train.json) {
    options.say = [](const std::string& line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    };
  }
  const chaos::ChaosReport report = chaos::run_chaos(options);
  const bool passed = chaos::problems_of(report).empty();
  write_file_atomically(folder.path() / "chaos.json", as_bytes(chaos::to_object(report).dump(2) + "\n"));
  if (train.json) {
    fmt::print("{}\n", chaos::to_object(report).dump());
  } else {
    fmt::print("\n{}both runs are in {}\n", chaos::to_text(report), folder.path().string());
  }
  return passed ? 0 : 1;
}

void declare_faults(CLI::App& command, ChaosFlags& flags) {
  const auto set_up = [](CLI::Option* option) { return option->configurable(false)->group(kFaults); };
  set_up(command.add_option(
             "--faults", flags.faults,
             "kinds, separated by commas: kill; stop (SIGSTOP, then SIGCONT after --stop-for); cut (all TCP "
             "connections of a process; as root); slow (a tenth of its speed); disk-full (of the "
             "checkpoints; as root)"))
      ->delimiter(',')
      ->capture_default_str();
  set_up(command.add_option("--roles", flags.roles, "which processes they hit: worker, server, master"))
      ->delimiter(',')
      ->capture_default_str();
  set_up(add_number(command, "--every", flags.every, "steps between two faults, on average", {.least = 1}))
      ->capture_default_str();
  set_up(add_number(command, "--every-ms", flags.every_ms,
                    "milliseconds between two faults, on average, however far training gets meanwhile", {.least = 1}))
      ->excludes("--every");
  set_up(add_number(command, "--count", flags.count, "number of faults; 0: until training ends"))
      ->capture_default_str();
  set_up(add_number(command, "--fault-seed", flags.fault_seed,
                    "decides what happens to which process when; the same seed gives the same plan"))
      ->capture_default_str();
  set_up(
      add_number(command, "--stop-for", flags.stop_for, "seconds that stop, slow and disk-full last", {.above = true}))
      ->capture_default_str();
  set_up(add_number(command, "--patience", flags.patience, "seconds to wait for a recovery before the next fault",
                    {.above = true}))
      ->capture_default_str();
  set_up(command.add_flag("--overlap", flags.overlap, "do not wait for recovery; servers are still hit one at a time"));
  set_up(add_number(command, "--soak-minutes", flags.soak_minutes,
                    "train for this long, with faults all the time, and check that surviving processes do not grow "
                    "(worker 0 is spared)",
                    {.above = true}));
}

/// Sets the defaults that differ from those of a training.
void settle_faults(CLI::App& command, ChaosFlags& flags) {
  set_unless_given(command, "--restarts", flags.train.restarts, kRestarts);
  if (flags.soak_minutes > 0 || storms(flags)) set_unless_given(command, "--count", flags.count, 0u);
  if (std::ranges::count(flags.faults, "disk-full") > 0) {
    set_unless_given(command, "--checkpoint-every", flags.train.checkpoint_every, std::to_string(flags.every));
  }
}

/// After parsing: the chaos run of a program, with the flags of `trireme run`.
void settle_chaos_of_program(CLI::App& command, ChaosFlags& flags) {
  std::set<std::string> others{"--config"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() == kFaults) others.insert(option->get_name());
  }
  check_flags_of_run(command, others, "a program of your own has its own");
  if (flags.soak_minutes > 0) {
    fail<InvalidArgument>("--soak-minutes: only 'trireme train' goes on for as long as one wants; use --every-ms");
  }
  flags.run_flags = given_flags_of_run(command);
  if (command.get_option("--restarts")->count() == 0) {
    flags.run_flags.insert(flags.run_flags.end(), {"--restarts", std::to_string(kRestarts)});
  }
  flags.train = settle_program(command, flags.train);
  if (storms(flags)) set_unless_given(command, "--count", flags.count, 0u);
}

}  // namespace

void add_chaos(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("chaos", "train while processes are killed and stopped, and measure what that costs");
  auto flags = std::make_shared<ChaosFlags>();
  declare_faults(*command, *flags);
  declare(*command, flags->train);
  auto config_path = std::make_shared<std::string>();
  add_config_flag(*command, *config_path);
  declare_program(*command, flags->program);
  command->footer(
      "Trains once undisturbed, then with faults, each after the run has recovered from the previous one.\n"
      "Status 1 if the parameters differ, samples were missed or repeated, or the run failed.\n"
      "With -- and a program of your own at the end: the same for that, with the flags of 'trireme run'. It trains\n"
      "with a Trainer (parameters are compared) or in dist::elastic (all of its dist::State is).\n"
      "Example: trireme chaos --strategy allreduce -w 4 --steps 200 --step-ms 150 --count 10 --every 20\n"
      "         " +
      std::string(kOwn));
  command->callback([command, flags, config_path, &action] {
    if (!config_path->empty()) apply_config_file(*command, *config_path);
    if (flags->program.empty()) {
      if (!command->remaining().empty()) fail<InvalidArgument>("which program? Nothing follows --: {}", kOwn);
      settle(*command, flags->train);
      settle_faults(*command, *flags);
    } else {
      settle_chaos_of_program(*command, *flags);
    }
    action = [flags, config = config_text(*command)] { return chaos(*flags, config); };
  });
}

}  // namespace trireme::cli
