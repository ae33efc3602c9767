#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"
#include "cli/plan/options.h"

namespace trireme::cli {
namespace {

constexpr const char* kFooter = R"(
Plans and draws; `trireme train --mesh` trains so. docs/parallel.md says how it counts. Exit status 1: nothing fits.

Examples:
  trireme plan --model gpt2-xl --workers 64 --hosts 8 --memory 24gb --bandwidth 100gbit --latency 20us
  trireme plan --calibrate --model gpt-10m --length 256 --classes 256 --workers 4
  trireme plan --model gpt2 --workers 4 --memory 8gb --precision bf16 --mesh data=2,pipe=2
  trireme plan --model gpt2-xl --workers 10000 --memory 80gb --batch 20000 --mtbf 50000 --straggler 0.001:1.5
  trireme plan --schedule zb-v --stages 4 --micro-batches 8 --svg zb-v.svg
  trireme plan --schedule-file mine.csv
)";

void add_model(CLI::App& command, PlanFlags& flags) {
  const std::string group = "What to train";
  command
      .add_option("--model", flags.model,
                  "gpt-tiny to gpt2-xl, resnet18, resnet20, resnet50, lenet, mlp, lstm or vit-tiny")
      ->group(group);
  add_number(command, "--batch", flags.batch, "samples per step, of all workers; 8 for each unless given",
             {.least = 1, .most = 1e9})
      ->group(group);
  add_number(command, "--length", flags.length, "tokens per sample; 1024 unless given", {.least = 1, .most = 1 << 20})
      ->group(group);
  command.add_option("--image", flags.image, "channels x rows x columns: 3x224x224")->group(group);
  add_number(command, "--classes", flags.classes, "outputs of the model: classes, or the vocabulary",
             {.least = 1, .most = 1 << 24})
      ->group(group);
  command.add_option("--precision", flags.precision, "fp32, or bf16 with an fp32 copy of the weights")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->group(group);
  command.add_option("--optimizer", flags.optimizer, "which state it keeps")
      ->check(CLI::IsMember({"adam", "adamw", "momentum", "sgd"}))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--attention", flags.attention,
                  "fused (LibTorch 2; the default), or plain, which keeps all pairs of tokens")
      ->check(CLI::IsMember({"fused", "plain"}))
      ->group(group);
  command
      .add_option("--reduction", flags.reduction, "exact: micro-batches are summed along a tree, which takes buffers")
      ->check(CLI::IsMember({"exact", "fast"}))
      ->capture_default_str()
      ->group(group);
}

void add_hardware(CLI::App& command, PlanFlags& flags) {
  const std::string group = "On what";
  add_number(command, "-w,--workers", flags.workers, "how many", {.least = 1, .most = plan::kMostRanks})->group(group);
  add_number(command, "--hosts", flags.hosts, "on how many hosts; each worker has its own unless given",
             {.least = 1, .most = plan::kMostRanks})
      ->group(group);
  command
      .add_option(
          "--memory", flags.memory,
          "of each worker that training may fill: 24gb, 80gib; unless given, this machine is planned for, as it "
          "was measured (--calibrate)")
      ->group(group);
  const auto add = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str()->group(group);
  };
  const auto add_measured = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->group(group);
  };
  add_measured("--flops", flags.flops,
               "of each worker, as it reaches them, not as advertised; as measured, or 100tflops, unless given");
  add("--bandwidth", flags.bandwidth, "of each worker to other hosts");
  add("--latency", flags.latency, "to other hosts");
  add_measured("--host-bandwidth", flags.host_bandwidth,
               "of each worker within its host; as measured, or 256gbit, unless given");
  add_measured("--host-latency", flags.host_latency, "within a host; as measured, or 5us, unless given");
  command
      .add_flag("--calibrate", flags.calibrate,
                "measure this machine with the --model, some seconds, and keep the result for later plans")
      ->group(group);
  command
      .add_option("--calibration", flags.calibration,
                  "the file to keep it in, and to plan with; trireme/calibration.json in ~/.cache unless given")
      ->group(group);
}

void add_arrangement(CLI::App& command, PlanFlags& flags) {
  const std::string group = "How (all are tried unless given)";
  command.add_option("--mesh", flags.mesh, "data=8,pipe=4,tensor=2")->group(group);
  add_number(command, "--zero", flags.zero, "ZeRO stage: 0 to 3", {.least = 0, .most = 3})->group(group);
  command.add_option("--schedule", flags.schedule, "gpipe, 1f1b, interleaved, zb-h1 or zb-v")->group(group);
  add_number(command, "--chunks", flags.chunks, "stages per rank of --schedule interleaved", {.least = 1, .most = 64})
      ->group(group);
  add_number(command, "--micro-batches", flags.micro_batches, "per step and data rank",
             {.least = 1, .most = plan::kMostMicroBatches})
      ->group(group);
  command.add_option("--recompute", flags.recompute, "compute blocks again in the backward instead of keeping them")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(group);
  command
      .add_flag("--offload", flags.offload,
                "parameter servers hold the optimizer's state (trireme train --offload): workers have weights and "
                "gradients only")
      ->group(group);
}

void add_failures(CLI::App& command, PlanFlags& flags) {
  const std::string group = "With failures";
  add_number(command, "--mtbf", flags.mtbf, "hours between two failures of one worker, on average",
             {.most = 1e9, .above = true})
      ->group(group);
  command.add_option("--straggler", flags.straggler, "how likely a worker is slow in a step, and how slow: 0.02:1.5")
      ->group(group);
  command.add_option("--checkpoint-time", flags.checkpoint_time, "that writing a checkpoint stops the training")
      ->capture_default_str()
      ->group(group);
  command.add_option("--restart-time", flags.restart_time, "from a failure until all compute again")
      ->capture_default_str()
      ->group(group);
  add_number(command, "--seed", flags.seed, "of the simulation")->capture_default_str()->group(group);
}

void add_drawing(CLI::App& command, PlanFlags& flags) {
  const std::string group = "Draw a schedule instead";
  add_number(command, "--stages", flags.stages,
             "ranks of the pipeline; zb-v and interleaved have several stages on each",
             {.least = 1, .most = plan::kMostStages})
      ->group(group);
  command.add_option("--schedule-file", flags.schedule_file, "one row per rank, as PyTorch writes them: 0F0,0F1,0B0")
      ->group(group);
  command.add_option("--times", flags.times, "of forward, input gradient and weight gradient")
      ->capture_default_str()
      ->group(group);
  add_number(command, "--message", flags.message, "time from one rank to the next", {.most = 1e9})
      ->capture_default_str()
      ->group(group);
}

/// Flags of the one mode are refused in the other, where they would be ignored.
void check_mode(const CLI::App& command, bool drawing) {
  const auto refuse = [&](const char* name, const char* where) {
    if (command.count(name) > 0) fail<InvalidArgument>("{} belongs to {}; see trireme plan --help", name, where);
  };
  if (drawing) {
    for (const char* name :
         {"--model",          "--batch",        "--length",    "--image",     "--classes",    "--precision",
          "--optimizer",      "--attention",    "--reduction", "--workers",   "--hosts",      "--memory",
          "--flops",          "--bandwidth",    "--latency",   "--mesh",      "--zero",       "--recompute",
          "--host-bandwidth", "--host-latency", "--mtbf",      "--straggler", "--seed",       "--checkpoint-time",
          "--restart-time",   "--top",          "--offload",   "--calibrate", "--calibration"}) {
      refuse(name, "a plan of a --model, not to a drawing of --stages or a --schedule-file");
    }
  } else {
    for (const char* name : {"--times", "--message"}) refuse(name, "a drawing: --stages or --schedule-file");
  }
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("plan", "find how to divide a model among workers: mesh, ZeRO, pipeline schedule");
  command->footer(kFooter);
  auto flags = std::make_shared<PlanFlags>();
  add_model(*command, *flags);
  add_hardware(*command, *flags);
  add_arrangement(*command, *flags);
  add_failures(*command, *flags);
  add_drawing(*command, *flags);
  add_number(*command, "--top", flags->top, "rows of the table", {.least = 1, .most = 1000})->capture_default_str();
  command->add_flag("--json", flags->json, "one JSON object");
  command->add_option("--svg", flags->svg, "write the pipeline's picture to this file");
  command->add_option("--csv", flags->csv, "write the schedule to this file: a row per rank, 0F0,0F1,0B0");
  command->add_flag("--messages", flags->messages, "with --csv: also what ranks send each other");
  command->callback([command, flags, &action] {
    const bool drawing = flags->stages || !flags->schedule_file.empty();
    if (!drawing && flags->model.empty()) {
      fail<InvalidArgument>(
          "'trireme plan' needs --model to plan, or --stages to draw a schedule; see trireme plan --help");
    }
    check_mode(*command, drawing);
    if (flags->messages && flags->csv.empty()) fail<InvalidArgument>("--messages needs --csv FILE to write them to");
    action = [flags, drawing] {
      const PlanAnswer answer = drawing            ? answer_schedule(*flags)
                                : flags->calibrate ? answer_calibration(*flags)
                                                   : answer_plan(*flags);
      std::fputs(answer.text.c_str(), stdout);
      return std::fflush(stdout) == 0 ? answer.status : 1;
    };
  });
}

}  // namespace trireme::cli
