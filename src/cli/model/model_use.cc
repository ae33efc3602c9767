#include "cli/model/model_use.h"

#include <cstdio>

#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "cli/flags/numbers.h"
#include "cli/start/device_check.h"
#include "launch/job/job_runner.h"

namespace trireme::cli {

void declare_model(CLI::App& command, UseFlags& flags) {
  command.add_option("run", flags.run, "the folder of a run of 'trireme train', or of a program with train_main")
      ->required();
  command.add_option("--checkpoint", flags.checkpoint,
                     "which model: the step of a checkpoint, best or last; the final one unless given");
  command.add_option("--device", flags.device, "cpu, cuda, or one GPU such as cuda:1")->capture_default_str();
  add_number(command, "--threads", flags.threads, "of LibTorch in each process; 0: all cores, shared by the workers",
             {.most = 1024})
      ->capture_default_str();
}

void declare_samples(CLI::App& command, UseFlags& flags) {
  command.add_option("data", flags.data,
                     "samples, as --data of 'trireme train' takes them; the run's own unless given");
  command
      .add_option(
          "--part", flags.part,
          "train, test or all; unless given all of a file, and the test part of the run's own or of a named set")
      ->check(CLI::IsMember({"train", "test", "all"}));
  add_number(command, "-w,--workers", flags.workers, "processes among which the samples are divided",
             {.least = 1, .most = 1024})
      ->capture_default_str();
}

ModelUse open_model(const UseFlags& flags) {
  check_device("--device", flags.device);
  ModelUse use = open_trained(observe::RunFolder::open(flags.run), flags.checkpoint);
  use.flags.device = flags.device;
  // Not by the number of workers, on which no bit of the result depends.
  use.flags.threads = flags.threads > 0 ? flags.threads : threads_per_worker(std::max(1u, use.flags.lanes));
  return use;
}

ModelUse open_model_and_samples(const UseFlags& flags, bool with_targets) {
  ModelUse use = open_model(flags);
  use.data = flags.data;
  const bool file = std::filesystem::exists(flags.data);
  use.part = !flags.part.empty() ? flags.part : file ? "all" : "test";
  try {
    const data::DatasetPtr samples = load_samples(use);
    if (!samples || samples->size() == 0) fail<InvalidArgument>("there is no sample in its part '{}'", use.part);
    check_same_kind(use.schema, samples->schema(), with_targets);
  } catch (const Error& problem) {
    fail<InvalidArgument>("{}: {}", flags.data.empty() ? use.flags.data : flags.data, problem.what());
  }
  return use;
}

JobFolder::JobFolder() : path_(std::filesystem::temp_directory_path() / ("trireme-" + random_hex(8))) {}

JobFolder::~JobFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

nlohmann::json run_use(const std::string& verb, const ModelUse& use, const UseFlags& flags,
                       const WorkerProgram& program, JobFolder& folder) {
  check_device_here(flags.device, program);
  const auto run = observe::RunFolder::create({.path = folder.path()});
  launch::JobSpec job;
  job.workers = job.min_workers = flags.workers;
  job.servers = 0;
  job.restarts = 0;
  job.quiet = true;
  job.threads = use.flags.threads;
  job.worker_argv = worker_words(program, {verb, nlohmann::json(use).dump()});
  const launch::JobOutcome outcome = launch::run_job(job, run);
  if (outcome.status == 0 && !outcome.result.is_null()) return outcome.result;
  folder.keep();
  fmt::print(stderr, "trireme: {}\nlogs: {}\n",
             outcome.failure.empty() ? "stopped before there was a result" : outcome.failure, run.logs().string());
  return {};
}

}  // namespace trireme::cli
