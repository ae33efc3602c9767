#include "cli/start/train_result.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "trireme/metrics.h"

#include "cli/start/training.h"
#include "cluster/strategy_choice.h"

namespace trireme::cli {

std::string describe_strategy(const TrainFlags& flags) {
  const std::string strategy = cluster::describe(cluster::parse_strategy(flags.strategy), flags.consistency);
  const cluster::MeshChoice mesh = mesh_of(flags);
  return mesh.divides_model() ? strategy + " on " + cluster::to_string(mesh) : strategy;
}

namespace {

constexpr double kSlowInput = 0.1;  // the share of time that is worth a word

/// A command line that shows something else, and what.
void suggest_next(const TrainFlags& flags, const std::string& command) {
  const auto line = [](const std::string& words, const char* what) { fmt::print("  {:<48}  {}\n", words, what); };
  const std::string train = fmt::format("{} --workers {}", command, flags.workers);
  if (flags.strategy != "ps") {
    line(train + " --strategy ps --consistency ssp:4", "parameters on a server, workers up to 4 steps apart");
  } else if (flags.consistency != "bsp") {
    line(train + " --consistency bsp", "workers in step");
  } else {
    line(train + " --consistency ssp:4", "workers may be up to 4 steps apart");
    line(train + " --strategy allreduce", "the same bits without a server");
  }
  if (command == kTrainCommand) line("./own_model --workers 2", "a model of your own (examples/own_model.cc)");
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

}  // namespace

void tell_result(const launch::JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags,
                 const std::string& command) {
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
  if (number("steps_left_out") > 0) {
    fmt::print("left out: {:.0f} {} whose gradient was not finite; the loss scale is {:g}\n", number("steps_left_out"),
               number("steps_left_out") == 1 ? "step" : "steps", number("loss_scale"));
  }
  if (result.contains("stopped_because")) fmt::print("stopped: {}\n", result.value("stopped_because", ""));
  fmt::print("\nthe run is in {}\n", out);
  fmt::print("  model.safetensors   the final parameters: trireme eval {}, trireme predict {}\n", out, out);
  if (std::filesystem::exists(folder.script())) fmt::print("  model.pt            the same as TorchScript\n");
  fmt::print("  checkpoints/        to continue: trireme resume {}; to inspect: trireme ckpt ls {}\n", out, out);
  fmt::print("  metrics.jsonl       loss, metrics, speed, clocks over time\n");
  fmt::print("  tensorboard/        the same for: tensorboard --logdir {}/tensorboard\n", out);
  if (flags.timeline) fmt::print("  timeline.json       what each process did when: open it in ui.perfetto.dev\n");
  if (flags.profile > 0) fmt::print("  profile/            what the steps computed: operations.json sums it up\n");
  fmt::print("  logs/               one log per process\n");
  fmt::print("\ntry next\n");
  suggest_next(flags, command);
}

void tell_nothing_left(const nlohmann::json& result, const observe::RunFolder& folder) {
  const std::string run = folder.path().string();
  const Step steps = result.value("steps", Step{0});
  fmt::print("nothing left to do: {} has made its {} steps", run, steps);
  if (const std::string scores = describe_scores(result); !scores.empty()) fmt::print(", {}", scores);
  fmt::print("\nto train on: trireme resume {} --steps {}\n", run, 2 * steps);
}

void print_json(nlohmann::json result, const observe::RunFolder& folder) {
  result["run"] = folder.path().string();
  fmt::print("{}\n", result.dump());
}

}  // namespace trireme::cli
