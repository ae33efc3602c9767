#include <memory>
#include <optional>
#include <set>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/config_file.h"
#include "cli/flags/numbers.h"
#include "cli/start/mesh_plan.h"
#include "cli/start/origin.h"
#include "cli/start/own_program.h"
#include "cli/start/run_program.h"
#include "cli/start/trained_run.h"
#include "cli/start/training.h"
#include "cluster/strategy_choice.h"

namespace trireme::cli {
namespace {

void check_is_run(const observe::RunFolder& folder) {
  if (holds_program(folder) || std::filesystem::exists(folder.config())) return;
  const std::string path = folder.path().string();
  const std::string begin =
      newest_step(folder).has_value() ? "; to begin one from its model: trireme train --init " + path : "";
  fail<InvalidArgument>("{} holds no run of 'trireme train' or 'trireme run': there is no config.toml{}", path, begin);
}

/// Said when a run begins to cut its matrices: until then they were whole, and tensor lanes are what results depend on.
void tell_tensor_lanes(const TrainFlags& flags, const TrainFlags& before, const observe::RunFolder& folder) {
  const auto newest = newest_step(folder);
  if (!newest || before.tensor_lanes > 1 || flags.tensor_lanes <= 1) return;
  fmt::print(
      stderr,
      "trireme: from step {} on matrices are cut into {} blocks (tensor lanes): results differ in their last bits "
      "from those of the run without --mesh {}\n",
      *newest, flags.tensor_lanes, flags.mesh);
}

}  // namespace

void add_resume(CLI::App& app, Action& action, const WorkerProgram& program, const Words& words) {
  auto* command = app.add_subcommand("resume", "continue a run that was stopped or killed, from its last checkpoint");
  auto flags = std::make_shared<TrainFlags>();
  auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "its folder")->required()->configurable(false);
  auto from = std::make_shared<std::optional<Step>>();
  add_number(*command, "--from", *from,
             "the step of the checkpoint to continue from, the newest sound one unless given; later ones are renamed, "
             "and no longer part of the run")
      ->configurable(false);
  declare(*command, *flags);
  command->footer(
      "Flags that are not given are those of the run; --json and --time-limit are never inherited.\n"
      "The number of workers and the strategy may change; model, data, batch, lanes, seed and optimizer may not.\n"
      "A program that 'trireme run' started goes on if it saves its state: with a Trainer, or with dist::State.\n"
      "Example: trireme resume runs/first --workers 4");
  command->callback([command, flags, run, from, program, words, &action] {
    for (const char* name : {"--out", "--overwrite"}) {
      if (command->get_option(name)->count() == 0) continue;
      fail<InvalidArgument>("{}: a run continues in its own folder, {}; leave the flag out", name, *run);
    }
    if ((action = hand_over(*run, program, words))) return;
    check_is_run(observe::RunFolder::open(*run));  // before anything is written into it
    const auto launched = find_foreign_start(*flags);
    const bool beside = launched && !launched->plan.leads;  // the folder is another process's to hold
    const auto folder =
        beside ? observe::RunFolder::open(*run) : observe::RunFolder::reopen(*run);  // held until the end
    if (launched && *from) fail<InvalidArgument>("--from: not under {}", to_string(launched->launcher));
    if (holds_program(folder)) {
      action = [folder, from, go_on = resume_program(*command, flags, folder)] {
        if (*from) go_back_to(**from, folder);
        tell_origin(folder);
        return go_on();
      };
      return;
    }
    const std::string config = folder.config().string();
    const TrainFlags before = flags_in(config);
    if (newest_step(folder)) check_continues(*command, *flags, before);
    const bool other_strategy =
        command->get_option("--strategy")->count() > 0 &&
        cluster::parse_strategy(config_value(config, "strategy")).kind != cluster::parse_strategy(flags->strategy).kind;
    std::set<std::string> not_inherited = flags_of_one_launch();
    if (launched) not_inherited.insert("workers");
    if (before.tensor_lanes <= 1) not_inherited.insert("tensor-lanes");  // from now on as the mesh has it
    if (command->get_option("--mesh")->count() > 0) {  // it is for other workers, and perhaps has no stages
      not_inherited.insert({"stages", "recompute"});
      if (flags->mesh != kAutoMesh) not_inherited.insert("workers");
    }
    if (other_strategy) not_inherited.merge(flags_of_one_strategy());
    apply_config_file(*command, config, not_inherited);
    const auto start = find_foreign_start(*flags);  // with the servers that the run has
    if (start) adopt(*start, *command, *flags);
    const auto remote = RemoteStart::open(*flags);
    if (remote && start) fail<InvalidArgument>("--hosts: {} has started this already", to_string(start->launcher));
    if (remote) remote->adopt(*command, *flags);
    check_local_plan(*flags, start.has_value() || remote != nullptr);
    if (const std::string chosen = settle_mesh(*command, *flags); !chosen.empty()) {
      fmt::print(stderr, "trireme: {}\n", chosen);
    }
    settle(*command, *flags);
    tell_tensor_lanes(*flags, before, folder);
    check_backend(*flags, start);
    action = [flags, folder, from, program, start, remote, config = config_text(*command)] {
      return start ? train_part(*flags, config, program, *start, folder)
                   : train(*flags, config, program, folder, *from, remote.get());
    };
  });
}

}  // namespace trireme::cli
