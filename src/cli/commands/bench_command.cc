#include <memory>

#include "cli/bench/allreduce.h"
#include "cli/bench/checkpoint.h"
#include "cli/bench/crowd.h"
#include "cli/bench/device_sums.h"
#include "cli/bench/input.h"
#include "cli/bench/observe.h"
#include "cli/bench/pipeline.h"
#include "cli/bench/plan.h"
#include "cli/bench/ps.h"
#include "cli/bench/recover.h"
#include "cli/commands/commands.h"
#include "cli/flags/numbers.h"

namespace trireme::cli {
namespace {

void add_all_reduce(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand(
      "allreduce", "sums among equals: shared memory and TCP, beside OpenMPI and gloo with --peers; or on a GPU");
  auto options = std::make_shared<BenchAllReduceOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  auto* peers = command->add_flag("--peers", options->peers,
                                  "also OpenMPI and gloo, by the same method (libopenmpi-dev openmpi-bin libgloo-dev)");
  add_number(*command, "--rounds", options->rounds, "how often each is measured; its best round counts", {.least = 1})
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "numbers of processes")->delimiter(',')->capture_default_str();
  command->add_option("--bytes", options->bytes, "sizes of the buffer, multiples of 4")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  auto* transports = command->add_option("--transports", options->transports, "shm, tcp or tls")
                         ->delimiter(',')
                         ->check(CLI::IsMember({"shm", "tcp", "tls"}))
                         ->capture_default_str();
  command
      ->add_option("--device", options->device,
                   "whose memory the buffers are in: cpu, cuda (ranks take turns with the GPUs) or cuda:1")
      ->capture_default_str();
  command->callback([options, peers, transports, &action] {
    const bool gpu = options->device != "cpu";
    if (gpu && peers->count() + transports->count() > 0) {
      throw CLI::ValidationError("--device", "--peers and --transports are for buffers of the host: --device cpu");
    }
    action = [options, gpu] { return gpu ? bench_device_sums(*options) : bench_allreduce(*options); };
  });
}

void add_checkpoint(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("checkpoint", "pause, writing and restoring, beside dd on the same disk");
  auto options = std::make_shared<BenchCheckpointOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_option("--bytes", options->bytes, "of state; rounded up to whole MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--folder", options->folder, "on the disk to measure; what is written there is removed again")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_number(*command, "--rounds", options->rounds, "how often each is measured; the median counts", {.least = 1})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_checkpoint(*options); }; });
}

void add_input(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("input", "samples per second of each source, beside a plain read of the file");
  auto options = std::make_shared<BenchInputOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_option("--bytes", options->bytes, "of each generated file")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--folder", options->folder, "to write them in; they are removed again")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_number(*command, "--rounds", options->rounds, "how often each is measured; the median counts", {.least = 1})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_input(*options); }; });
}

void add_pipeline(CLI::App& bench, Action& action) {
  auto* command =
      bench.add_subcommand("pipeline", "bubbles of each schedule, with stages that sleep and real messages");
  auto options = std::make_shared<BenchPipelineOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_option("--shapes", options->shapes, "ranks:micro-batches")->delimiter(',')->capture_default_str();
  command->add_option("--schedules", options->schedules, "gpipe, 1f1b, interleaved, zb-h1, zb-v")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--forward", options->milliseconds,
                   "milliseconds that a rank sleeps for a forward; as long for each gradient")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--bytes", options->bytes, "of a message")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  add_number(*command, "--rounds", options->rounds, "how often each is run; the least disturbed counts", {.least = 1})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_pipeline(*options); }; });
}

void add_plan_bench(CLI::App& bench, Action& action) {
  auto* command =
      bench.add_subcommand("plan", "what trireme plan predicts of fourteen layouts, beside what is measured");
  auto options = std::make_shared<BenchPlanOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_option("--model", options->model, "a GPT, with its settings")->capture_default_str();
  add_number(*command, "--length", options->length, "tokens per sample", {.least = 2, .most = 4096})
      ->capture_default_str();
  add_number(*command, "--batch", options->batch, "samples per step, a multiple of 16", {.least = 16, .most = 65536})
      ->capture_default_str();
  add_number(*command, "--steps", options->steps, "of each training", {.least = 10, .most = 1'000'000})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_plan(*options); }; });
}

void add_recover(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("recover", "how soon training continues after a process was killed or stopped");
  auto options = std::make_shared<BenchRecoverOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  add_number(*command, "--rounds", options->rounds, "faults of each kind", {.least = 1})->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_recover(*options); }; });
}

void add_observe(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("observe", "what it costs to be watched, beside a step of LeNet");
  auto options = std::make_shared<BenchObserveOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  add_number(*command, "--steps", options->steps, "of the training that is measured", {.least = 20})
      ->capture_default_str();
  add_number(*command, "--workers", options->workers, "that a page shows", {.least = 1})->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_observe(*options); }; });
}

void add_crowd(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand("crowd", "hundreds of workers: joining, deaths, what master and servers hold");
  auto options = std::make_shared<BenchCrowdOptions>();
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_option("--workers", options->workers, "sizes of jobs")->delimiter(',')->capture_default_str();
  add_number(*command, "--servers", options->servers, "of each job", {.least = 1})->capture_default_str();
  add_number(*command, "--steps", options->steps, "of each job; a tenth of the workers is killed half-way",
             {.least = 2, .most = 1'000'000})
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return bench_crowd(*options); }; });
  const auto hidden = "";  // what the workers of these jobs run; not for people
  bench.add_subcommand("crowd-worker", "")->group(hidden)->callback([&action] {
    action = [] { return crowd_worker(); };
  });
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("bench", "measure Trireme on this machine");
  command->require_subcommand(1);
  auto* ps = command->add_subcommand("ps", "parameter server: push, pull and push+pull beside memcpy and raw TCP");
  auto options = std::make_shared<BenchPsOptions>();
  ps->add_flag("--json", options->json, "one JSON object on standard output");
  ps->add_flag("--quick", options->quick, "fewer repetitions: to check that it works");
  add_all_reduce(*command, action);
  add_checkpoint(*command, action);
  add_input(*command, action);
  add_pipeline(*command, action);
  add_plan_bench(*command, action);
  add_recover(*command, action);
  add_crowd(*command, action);
  add_observe(*command, action);
  ps->callback([options, &action] { action = [options] { return bench_ps(*options); }; });
}

}  // namespace trireme::cli
