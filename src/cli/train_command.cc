#include <memory>

#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/training.h"

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
    settle(*command, *flags);
    action = [flags, program, config = config_text(*command)] { return train(*flags, config, program); };
  });
}

}  // namespace trireme::cli
