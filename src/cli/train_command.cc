#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <ranges>

#include "trireme/sampler.h"

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "checkpoint/list.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/run_program.h"
#include "cli/train_flags.h"
#include "cluster/strategy_choice.h"
#include "launch/companion.h"
#include "launch/job_runner.h"

namespace trireme::cli {
namespace {

constexpr double kPlanWithin = 10;  // seconds for workers to build their models and report their plan

std::string counted(std::uint32_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string describe_strategy(const TrainFlags& flags) {
  return cluster::describe(cluster::parse_strategy(flags.strategy), flags.consistency);
}

/// A command line that shows something else, and what.
void suggest_next(const TrainFlags& flags) {
  const auto line = [](const std::string& command, const char* what) { fmt::print("  {:<48}  {}\n", command, what); };
  const std::string train = fmt::format("trireme train --workers {}", flags.workers);
  if (flags.strategy != "ps") {
    line(train + " --strategy ps --consistency ssp:4", "parameters on a server, workers up to 4 steps apart");
  } else if (flags.consistency != "bsp") {
    line(train + " --consistency bsp", "workers in step");
  } else {
    line(train + " --consistency ssp:4", "workers may be up to 4 steps apart");
    line(train + " --strategy allreduce", "the same bits without a server");
  }
  line("trireme run -w 2 -s 1 -- ./fashion_mnist", "a program of your own (examples/fashion_mnist.cc)");
  line("trireme bench ps", "how fast the parameter server is here");
}

void tell_result(const launch::JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags) {
  const auto& result = outcome.result;
  const auto number = [&](const char* key) { return result.value(key, 0.0); };
  const std::string out = folder.path().string();
  if (result.at("test_accuracy").is_number()) {
    fmt::print("\ntest accuracy {:.2f} %, test loss {:.4f}", 100 * number("test_accuracy"), number("test_loss"));
  }
  fmt::print(" after {} steps in {:.1f} s ({:.0f} samples/s)\n", result.value("steps", 0), number("seconds"),
             number("samples_per_s"));
  fmt::print("strategy {}", result.value("strategy", describe_strategy(flags)));
  if (flags.codec != "none") fmt::print(", gradients as {}", flags.codec);
  if (result.contains("wire_bytes")) {
    fmt::print(", {:.1f} MiB moved by worker 0", number("wire_bytes") / (1 << 20));
    const double ratio = number("plain_bytes") / std::max(1.0, number("wire_bytes"));
    if (ratio > 1.01) fmt::print(", {:.1f} times less than uncompressed gradients in every step", ratio);
    if (number("encode_seconds") > 0) fmt::print(" ({:.2f} s to encode)", number("encode_seconds"));
  }
  fmt::print("\n");
  if (result.contains("stopped_because")) fmt::print("stopped: {}\n", result.value("stopped_because", ""));
  fmt::print("\nthe run is in {}\n", out);
  fmt::print("  model.safetensors   the final parameters\n");
  fmt::print("  checkpoints/        to continue: trireme resume {}; to inspect: trireme ckpt ls {}\n", out, out);
  fmt::print("  metrics.jsonl       loss, accuracy, speed, clocks over time\n");
  fmt::print("  tensorboard/        the same for: tensorboard --logdir {}/tensorboard\n", out);
  if (flags.timeline) fmt::print("  timeline-*.json     what each worker did when: open them in ui.perfetto.dev\n");
  fmt::print("  logs/               one log per process\n");
  fmt::print("\ntry next\n");
  suggest_next(flags);
}

/// Trains in `folder`, or in a new one that the flags name.
int train(const TrainFlags& flags, const std::string& config, std::optional<observe::RunFolder> existing = {}) {
  check(flags);
  const data::Split data = load_data(flags);  // errors in the data show before anything starts
  data::Sampler(
      {.samples = data.train->size(), .batch = flags.batch, .lanes = flags.lanes == 0 ? flags.workers : flags.lanes});
  const std::string worker = launch::companion_program("trireme-worker");
  const auto folder =
      existing ? *existing
               : observe::RunFolder::create({.path = flags.out, .model = flags.model, .overwrite = flags.overwrite});
  write_file_atomically(folder.config(), as_bytes(config));
  if (!flags.json) {
    const std::string servers = flags.servers == 0 ? "" : " and " + counted(flags.servers, "server");
    fmt::print("{} {} on {} with {}{}, {}\n", existing ? "continuing" : "training", flags.model, data.train->describe(),
               counted(flags.workers, "worker"), servers, describe_strategy(flags));
    std::fflush(stdout);  // before the progress line, which goes to standard error
  }
  launch::JobSpec job = to_job(flags);
  job.plan_within = kPlanWithin;
  job.threads = flags.threads > 0 ? flags.threads : threads_per_worker(flags.lanes);
  job.worker_argv = {worker, nlohmann::json(flags).dump()};
  const launch::JobOutcome outcome = launch::run_job(job, folder);
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

bool is_sound(const checkpoint::CheckpointEntry& entry) {
  return entry.state == checkpoint::CheckpointEntry::State::kComplete && checkpoint::verify(entry.folder).sound();
}

/// Makes the checkpoint of step `from` the newest one of the run: later ones would be continued instead.
void go_back_to(Step from, const observe::RunFolder& folder) {
  const std::string run = folder.path().string();
  const auto entries = checkpoint::list_checkpoints(folder.checkpoints());
  const auto chosen = std::ranges::find(entries, from, &checkpoint::CheckpointEntry::step);
  if (chosen == entries.end())
    fail<InvalidArgument>("{} has no checkpoint of step {}: see trireme ckpt ls {}", run, from, run);
  if (!is_sound(*chosen)) {
    fail<Corrupt>("the checkpoint of step {} is incomplete or damaged (trireme ckpt verify {}): see trireme ckpt ls {}",
                  from, chosen->folder.string(), run);
  }
  for (const auto& aside : checkpoint::set_aside_after(checkpoint::real_file_system(), folder.checkpoints(), from)) {
    fmt::print(stderr, "trireme: a later checkpoint is kept as {}\n", aside.string());
  }
}

/// Says what the run continues from, where that is not what one would expect. The chief makes the same choice.
void tell_origin(const observe::RunFolder& folder) {
  bool damaged = false;
  for (const auto& entry : checkpoint::list_checkpoints(folder.checkpoints()) | std::views::reverse) {
    if (is_sound(entry)) return;
    if (entry.state == checkpoint::CheckpointEntry::State::kIncomplete) continue;
    damaged = true;
    fmt::print(stderr,
               "trireme: the checkpoint of step {} is damaged (trireme ckpt verify {}): an older one is tried\n",
               entry.step, entry.folder.string());
  }
  fmt::print(stderr, "trireme: {} has no {}\n", folder.path().string(),
             damaged ? "sound checkpoint to continue from" : "complete checkpoint: starting from the beginning");
}

}  // namespace

void add_resume(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("resume", "continue a run that was stopped or killed, from its last checkpoint");
  auto flags = std::make_shared<TrainFlags>();
  auto run = std::make_shared<std::string>();
  command->add_option("run", *run, "its folder")->required()->configurable(false);
  auto from = std::make_shared<std::optional<Step>>();
  command
      ->add_option("--from", *from,
                   "the step of the checkpoint to continue from, the newest sound one unless given; later ones are "
                   "renamed, and no longer part of the run")
      ->configurable(false);
  declare(*command, *flags);
  command->footer(
      "Flags that are not given are those of the run. The number of workers and the strategy may change.\n"
      "A program that 'trireme run' started goes on if it saves its state: with a Trainer, or with dist::State.\n"
      "Example: trireme resume runs/first --workers 4");
  command->callback([command, flags, run, from, &action] {
    const auto folder = observe::RunFolder::reopen(*run);  // held until the run has ended
    if (holds_program(folder)) {
      action = [folder, from, go_on = resume_program(*command, flags, folder)] {
        if (*from) go_back_to(**from, folder);
        tell_origin(folder);
        return go_on();
      };
      return;
    }
    if (!std::filesystem::exists(folder.config())) {
      fail<InvalidArgument>("{} holds no run of 'trireme train' or 'trireme run': there is no config.toml", *run);
    }
    const std::string config = folder.config().string();
    const bool other_strategy =
        command->get_option("--strategy")->count() > 0 &&
        cluster::parse_strategy(config_value(config, "strategy")).kind != cluster::parse_strategy(flags->strategy).kind;
    apply_config_file(*command, config, other_strategy ? flags_of_one_strategy() : std::set<std::string>{});
    settle(*command, *flags);
    action = [flags, folder, from, config = config_text(*command)] {
      check(*flags);  // before anything is renamed
      if (*from) go_back_to(**from, folder);
      tell_origin(folder);
      return train(*flags, config, folder);
    };
  });
}

void add_train(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("train", "train one of the networks that come with Trireme");
  auto flags = std::make_shared<TrainFlags>();
  declare(*command, *flags);
  auto config_path = std::make_shared<std::string>();
  add_config_flag(*command, *config_path);
  command->footer("Example: trireme train --model lenet --data fashion-mnist --workers 2 --servers 1 --epochs 5");
  command->callback([command, flags, config_path, &action] {
    if (!config_path->empty()) apply_config_file(*command, *config_path);
    settle(*command, *flags);
    action = [flags, config = config_text(*command)] { return train(*flags, config); };
  });
}

}  // namespace trireme::cli
