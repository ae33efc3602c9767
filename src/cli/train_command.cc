#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "trireme/metrics.h"
#include "trireme/sampler.h"

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/commands.h"
#include "cli/config_file.h"
#include "cli/init_model.h"
#include "cli/model_rules.h"
#include "cli/origin.h"
#include "cli/train_flags.h"
#include "cli/training.h"
#include "cluster/strategy_choice.h"
#include "data/task_rules.h"
#include "launch/companion.h"
#include "launch/job_runner.h"

namespace trireme::cli {
namespace {

constexpr double kSlowInput = 0.1;  // the share of time that is worth a word
constexpr double kPlanWithin = 10;  // seconds for workers to build their models and report their plan

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

/// "test accuracy 87.34 %, test loss 0.3567": what the model achieved on the test set; empty if there is none.
std::string describe_scores(const nlohmann::json& result) {
  std::string text;
  const auto add = [&](const std::string& name, const nlohmann::json& value) {
    if (!value.is_number()) return;
    text += fmt::format("{}test {}", text.empty() ? "" : ", ", describe(NamedValue{name, value.get<double>()}));
  };
  for (const auto& [name, value] : result.items()) {
    if (name.starts_with("test_") && name != "test_loss") add(name.substr(5), value);
  }
  add("loss", result.value("test_loss", nlohmann::json()));
  return text;
}

void tell_result(const launch::JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags) {
  const auto& result = outcome.result;
  const auto number = [&](const char* key) { return result.value(key, 0.0); };
  const std::string out = folder.path().string();
  if (const std::string scores = describe_scores(result); !scores.empty()) fmt::print("\n{}", scores);
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
  if (number("input_share") > kSlowInput) {
    fmt::print("{:.0f} % of the time went into waiting for samples: the data is slower than the model\n",
               100 * number("input_share"));
  }
  if (result.contains("sparsity"))
    fmt::print("pruned: {:.1f} % of the parameters are zero\n", 100 * number("sparsity"));
  if (result.contains("stopped_because")) fmt::print("stopped: {}\n", result.value("stopped_because", ""));
  fmt::print("\nthe run is in {}\n", out);
  fmt::print("  model.safetensors   the final parameters\n");
  fmt::print("  checkpoints/        to continue: trireme resume {}; to inspect: trireme ckpt ls {}\n", out, out);
  fmt::print("  metrics.jsonl       loss, metrics, speed, clocks over time\n");
  fmt::print("  tensorboard/        the same for: tensorboard --logdir {}/tensorboard\n", out);
  if (flags.timeline) fmt::print("  timeline.json       what each process did when: open it in ui.perfetto.dev\n");
  fmt::print("  logs/               one log per process\n");
  fmt::print("\ntry next\n");
  suggest_next(flags);
}

void tell_nothing_left(const nlohmann::json& result, const observe::RunFolder& folder) {
  const std::string run = folder.path().string();
  const Step steps = result.value("steps", Step{0});
  fmt::print("nothing left to do: {} has made its {} steps", run, steps);
  if (const std::string scores = describe_scores(result); !scores.empty()) fmt::print(", {}", scores);
  fmt::print("\nto train on: trireme resume {} --steps {}\n", run, 2 * steps);
}

observe::RunFolder create_folder(const TrainFlags& flags) {
  try {
    return observe::RunFolder::create({.path = flags.out, .model = flags.model, .overwrite = flags.overwrite});
  } catch (const IoError& problem) {  // nothing has begun yet: it is the flag that is wrong
    fail<InvalidArgument>("--out {}: {}", flags.out, problem.what());
  }
}

void print_json(nlohmann::json result, const observe::RunFolder& folder) {
  result["run"] = folder.path().string();
  fmt::print("{}\n", result.dump());
}

/// Returns the result of a run that has made `steps` steps and more, and was asked for no more; null if it goes on.
nlohmann::json result_of_finished(const observe::RunFolder& folder, Step steps) {
  if (newest_step(folder).value_or(0) < steps || !std::filesystem::exists(folder.result())) return {};
  nlohmann::json result = nlohmann::json::parse(read_file(folder.result()), nullptr, /*allow_exceptions=*/false);
  return result.is_object() && result.value("steps", Step{0}) >= steps ? result : nlohmann::json();
}

/// Errors in the data show before anything starts, as errors of the one who named them.
data::Split load_before_start(const TrainFlags& flags) {
  try {
    return load_data(flags);
  } catch (const IoError& problem) {
    fail<InvalidArgument>("--data {}: {}", flags.data, problem.what());
  } catch (const Corrupt& problem) {
    fail<InvalidArgument>("--data {}: {}", flags.data, problem.what());
  }
}

/// More threads than cores make all of them wait for each other.
void warn_of_crowding(const TrainFlags& flags) {
  const std::uint32_t cores = available_cores();
  if (flags.threads <= 1 || flags.workers * static_cast<std::uint32_t>(flags.threads) <= cores) return;
  fmt::print(stderr, "trireme: {} with {} threads each share {}: this is slow; --threads {} fits\n",
             counted(flags.workers, "worker"), flags.threads, counted(cores, "core"),
             std::max(1u, cores / flags.workers));
}

}  // namespace

int train(TrainFlags flags, const std::string& config, std::optional<observe::RunFolder> existing,
          std::optional<Step> from) {
  check(flags);
  const std::string init = existing && newest_step(*existing).has_value() ? "" : settle_init(flags);
  const data::Split data = load_before_start(flags);
  const data::Schema& samples = data.train->schema();
  data::outputs_for(flags.task.empty() ? data::fitting_task(samples) : flags.task,
                    samples);  // refuses what does not fit
  check_model_takes(flags.model, samples);
  if (existing) check_samples(*existing, data.train->size());
  const data::Sampler sampler(
      {.samples = data.train->size(), .batch = flags.batch, .lanes = flags.lanes == 0 ? flags.workers : flags.lanes});
  if (existing && !from) {
    const Step steps = flags.steps > 0 ? flags.steps : flags.epochs * sampler.steps_per_epoch();
    if (const nlohmann::json result = result_of_finished(*existing, steps); !result.is_null()) {
      if (flags.json) {
        print_json(result, *existing);
      } else {
        tell_nothing_left(result, *existing);
      }
      return 0;
    }
  }
  const std::string worker = launch::companion_program("trireme-worker");
  if (from) go_back_to(*from, *existing);
  if (existing) tell_origin(*existing);
  const auto folder = existing ? *existing : create_folder(flags);
  write_file_atomically(folder.config(), as_bytes(config));
  if (!flags.json) {
    const std::string servers = flags.servers == 0 ? "" : " and " + counted(flags.servers, "server");
    fmt::print("{} {} on {} with {}{}, {}\n", existing ? "continuing" : "training", flags.model, data.train->describe(),
               counted(flags.workers, "worker"), servers, describe_strategy(flags));
    if (!init.empty()) fmt::print("{}\n", init);
    std::fflush(stdout);  // before the progress line, which goes to standard error
  }
  warn_of_crowding(flags);
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
    print_json(outcome.result, folder);
  } else {
    tell_result(outcome, folder, flags);
  }
  return outcome.status;
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
