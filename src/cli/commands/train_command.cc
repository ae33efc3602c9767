#include <memory>

#include "base/error.h"
#include "cli/commands/commands.h"
#include "cli/flags/config_file.h"
#include "cli/start/mesh_plan.h"
#include "cli/start/training.h"

namespace trireme::cli {

void add_train(CLI::App& app, Action& action, const WorkerProgram& program) {
  auto* command = app.add_subcommand("train", "train a network that comes with Trireme, or one of TorchScript");
  auto flags = std::make_shared<TrainFlags>();
  declare(*command, *flags);
  auto config_path = std::make_shared<std::string>();
  add_config_flag(*command, *config_path);
  command->footer("Example: " + program.command +
                  " --model lenet --data fashion-mnist --workers 2 --servers 1 --epochs 5");
  command->callback([command, flags, config_path, program, &action] {
    if (!config_path->empty()) apply_config_file(*command, *config_path);
    const auto start = find_foreign_start(*flags);
    if (start) adopt(*start, *command, *flags);
    const auto remote = RemoteStart::open(*flags);
    if (remote && start) fail<InvalidArgument>("--hosts: {} has started this already", to_string(start->launcher));
    if (remote) remote->adopt(*command, *flags);
    check_local_plan(*flags, start.has_value() || remote != nullptr);
    if (const std::string chosen = settle_mesh(*command, *flags); !chosen.empty()) {
      fmt::print(stderr, "trireme: {}\n", chosen);
    }
    settle(*command, *flags);
    check_backend(*flags, start);
    action = [flags, program, start, remote, config = config_text(*command)] {
      return start ? train_part(*flags, config, program, *start) : train(*flags, config, program, {}, {}, remote.get());
    };
  });
}

}  // namespace trireme::cli
