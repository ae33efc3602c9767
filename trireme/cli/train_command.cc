#include <cstdio>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/base/file.h"
#include "trireme/cli/commands.h"
#include "trireme/cli/config_file.h"
#include "trireme/cli/job_runner.h"
#include "trireme/cli/train_flags.h"
#include "trireme/data/sampler.h"

namespace trireme::cli {
namespace {

void tell_result(const JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags) {
  const auto& result = outcome.result;
  const auto number = [&](const char* key) { return result.value(key, 0.0); };
  const std::string out = folder.path().string();
  if (result.at("test_accuracy").is_number()) {
    fmt::print("\ntest accuracy {:.2f} %, test loss {:.4f}", 100 * number("test_accuracy"), number("test_loss"));
  }
  fmt::print(" after {} steps in {:.1f} s ({:.0f} samples/s)\n", result.value("steps", 0), number("seconds"),
             number("samples_per_s"));
  if (result.contains("stopped_because")) fmt::print("stopped: {}\n", result.value("stopped_because", ""));
  fmt::print("\nthe run is in {}\n", out);
  fmt::print("  model.safetensors   the final parameters\n");
  fmt::print("  metrics.jsonl       loss, accuracy, speed, clocks over time\n");
  fmt::print("  tensorboard/        the same for: tensorboard --logdir {}/tensorboard\n", out);
  fmt::print("  logs/               one log per process\n");
  fmt::print("\ntry next\n");
  fmt::print("  trireme train --consistency {} --workers {}    {}\n", flags.consistency == "bsp" ? "ssp:4" : "bsp",
             flags.workers, flags.consistency == "bsp" ? "workers may be up to 4 steps apart" : "workers in step");
  fmt::print("  trireme run -w 2 -s 1 -- ./fashion_mnist          a program of your own (examples/fashion_mnist.cc)\n");
  fmt::print("  trireme bench ps                                  how fast the parameter server is here\n");
}

int train(const TrainFlags& flags, const std::string& config) {
  check(flags);
  const data::Split data = load_data(flags);  // what is wrong with the data shows before anything starts
  data::Sampler(
      {.samples = data.train->size(), .batch = flags.batch, .lanes = flags.lanes == 0 ? flags.workers : flags.lanes});
  const auto folder =
      observe::RunFolder::create({.path = flags.out, .model = flags.model, .overwrite = flags.overwrite});
  write_file_atomically(folder.config(), as_bytes(config));
  if (!flags.json) {
    fmt::print("training {} on {} with {} worker{} and {} server{}, {}\n", flags.model, data.train->describe(),
               flags.workers, flags.workers == 1 ? "" : "s", flags.servers, flags.servers == 1 ? "" : "s",
               flags.consistency);
    std::fflush(stdout);  // before the progress, which goes to standard error
  }
  const JobOutcome outcome = run_job({.workers = flags.workers,
                                      .servers = flags.servers,
                                      .transport = flags.transport,
                                      .worker_argv = {program_beside("trireme-worker"), nlohmann::json(flags).dump()},
                                      .quiet = flags.json},
                                     folder);
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
    return outcome.status;
  }
  if (outcome.result.is_null()) {
    fmt::print(stderr, "trireme: stopped before there was a result; logs: {}\n", folder.logs().string());
    return outcome.status;
  }
  if (flags.json) {
    nlohmann::json line = outcome.result;
    line["run"] = folder.path().string();
    fmt::print("{}\n", line.dump());
  } else {
    tell_result(outcome, folder, flags);
  }
  return outcome.status;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "train one of the networks that come with Trireme");
  auto flags = std::make_shared<TrainFlags>();
  declare(*command, *flags);
  auto config_path = std::make_shared<std::string>();
  add_config_flag(*command, *config_path);
  command->footer("Example: trireme train --model lenet --data fashion-mnist --workers 2 --servers 1 --epochs 5");
  command->callback([command, flags, config_path, &action] {
    if (!config_path->empty()) apply_config_file(*command, *config_path);
    action = [flags, config = command->config_to_str(/*default_also=*/true, /*write_description=*/false)] {
      return train(*flags, config);
    };
  });
}

}  // namespace trireme::cli
