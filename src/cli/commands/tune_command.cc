#include <cstdio>
#include <memory>

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/commands/commands.h"
#include "cli/flags/config_file.h"
#include "cli/flags/numbers.h"
#include "cli/start/foreign_start.h"
#include "cli/tune/new_search.h"
#include "tune/trial_table.h"
#include "tune/tune_run.h"

namespace trireme::cli {
namespace {

constexpr const char* kSearch = "The search";

observe::RunFolder make_folder(const TrainFlags& flags) {
  if (!flags.out.empty() && std::filesystem::exists(tune::TuneState::file(flags.out)) && !flags.overwrite) {
    fail<InvalidArgument>(
        "--out {} holds a search already: go on with it (trireme tune --resume {}), replace it "
        "(--overwrite), or choose another folder",
        flags.out, flags.out);
  }
  auto folder = observe::RunFolder::create({.path = flags.out, .model = "tune", .overwrite = flags.overwrite});
  std::filesystem::remove(tune::TuneState::file(folder.path()));
  std::filesystem::remove_all(folder.path() / "trials");
  return folder;
}

int tell(const tune::TuneState& state, const std::filesystem::path& folder, bool json) {
  const std::string table = tune::to_table(state);
  write_file_atomically(folder / "table.txt", as_bytes(table));
  write_file_atomically(folder / "plot.svg", as_bytes(tune::to_picture(state)));
  const auto best = state.best();
  if (json) {
    nlohmann::json object = tune::to_object(state);
    object["folder"] = folder.string();
    fmt::print("{}\n", object.dump());
  } else {
    fmt::print("\n{}\n{} of all trials; the search is in {}\n", table, counted(state.steps_made(), "step"),
               folder.string());
    fmt::print("  table.txt, plot.svg   the same, and the metric over the steps of each trial\n");
    fmt::print("  trials/               a run each, the best in {}\n",
               best ? tune::folder_of_trial(folder, *best).string() : "none");
    if (best) fmt::print("\nthe best, to train it alone\n  {}\n", tune::command_of(state, *best));
  }
  if (!best) fmt::print(stderr, "trireme: all trials failed; their output is in {}\n", (folder / "trials").string());
  return best ? 0 : 1;
}

int search(tune::TuneState state, const observe::RunFolder& folder, bool json) {
  state.save(folder.path());
  tune::TuneRunOptions options{.folder = folder.path(), .quiet = json};
  if (!json) {
    fmt::print("{}: {}, {} side by side, in {}\n", state.method, counted(state.trials.size(), "trial"),
               state.asha.slots, folder.path().string());
    options.say = [](const std::string& line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    };
  }
  const tune::TuneEnd end = tune::run_trials(state, options);
  if (end.signal == 0) return tell(state, folder.path(), json);
  fmt::print(stderr, "trireme: stopped; to go on: trireme tune --resume {}\n", folder.path().string());
  return 128 + end.signal;
}

void check_only_resume(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || name == "--resume" || name == "--json") continue;
    fail<InvalidArgument>("{}: a search goes on as it began; leave the flag out", name);
  }
}

void declare_search(CLI::App& command, TuneFlags& flags) {
  const auto set_up = [](CLI::Option* option) { return option->configurable(false)->group(kSearch); };
  set_up(command.add_option("--space", flags.space,
                            "flags in which trials differ, and their values: lr=log:1e-4:1e-1,batch=32|64; a range is "
                            "log: or linear:, with as many values as a last number says: lr=log:1e-4:1e-1:7"))
      ->allow_extra_args(false);
  set_up(add_number(command, "--trials", flags.trials, "how many sets of values to try, at most",
                    {.least = 1, .most = 100000}))
      ->capture_default_str();
  CLI::Option* const asha = set_up(command.add_flag(
      "--asha", flags.asha, "compare trials at rungs, and go on with the best third of each; the default"));
  CLI::Option* const random = set_up(command.add_flag("--random", flags.random, "train all of them fully"));
  CLI::Option* const grid =
      set_up(command.add_flag("--grid", flags.grid, "train all combinations of the values, each fully"));
  asha->excludes(random)->excludes(grid);
  random->excludes(grid);
  set_up(command.add_option("--metric", flags.metric,
                            "of the test set, by which trials are compared; the task's first unless given: accuracy, "
                            "rmse, bits_per_token; loss"));
  set_up(
      add_number(command, "--eta", flags.eta, "of so many trials at a rung, one goes on", {.least = 1, .above = true}))
      ->capture_default_str();
  set_up(
      add_number(command, "--rungs", flags.rungs,
                 "how often trials are compared, the end included; unless given, up to 4, as the trials are enough for",
                 {.least = 1, .most = 20}));
  set_up(add_number(command, "--parallel", flags.parallel,
                    "trials that train side by side; cores / workers unless given", {.least = 1, .most = 10000}));
  set_up(command.add_option("--resume", flags.resume, "go on with the search in this folder"));
}

}  // namespace

void add_tune(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("tune", "try a training with several values of its flags, and find the best");
  auto flags = std::make_shared<TuneFlags>();
  declare_search(*command, *flags);
  declare(*command, flags->train);
  auto config_path = std::make_shared<std::string>();
  add_config_flag(*command, *config_path);
  command->footer(
      "Each trial is a run of 'trireme train' with one worker unless --workers says more; --steps or --epochs is the "
      "length "
      "of a\nwhole training. Whatever is killed: 'trireme tune --resume FOLDER' goes on, and ends with the same "
      "table.\n"
      "Example: trireme tune --model mlp --steps 900 --space lr=log:1e-4:1e-1,batch=32|64 --trials 27");
  command->callback([command, flags, config_path, &action] {
    if (!flags->resume.empty()) {
      check_only_resume(*command);
      action = [flags] {
        tune::TuneState state = tune::TuneState::load(flags->resume);
        return search(std::move(state), observe::RunFolder::reopen(flags->resume), flags->train.json);
      };
      return;
    }
    if (!config_path->empty()) apply_config_file(*command, *config_path);
    if (const auto start = find_foreign_start(flags->train)) {
      fail<InvalidArgument>("{} has started several of these: a search starts its trials itself, on one host",
                            to_string(start->launcher));
    }
    action = [command, flags] {
      tune::TuneState state = make_search(*command, *flags);  // what is wrong shows before there is a folder
      return search(std::move(state), make_folder(flags->train), flags->train.json);
    };
  });
}

}  // namespace trireme::cli
