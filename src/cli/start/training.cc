#include "cli/start/training.h"

#include <algorithm>
#include <cstdio>

#include <fmt/ranges.h>

#include "trireme/metrics.h"
#include "trireme/sampler.h"

#include "base/counted.h"
#include "base/error.h"
#include "base/file.h"
#include "base/suggest.h"
#include "base/threads.h"
#include "cli/flags/check_script.h"
#include "cli/flags/known_names.h"
#include "cli/model/init_model.h"
#include "cli/model/model_rules.h"
#include "cli/model/run_samples.h"
#include "cli/start/crowding.h"
#include "cli/start/device_check.h"
#include "cli/start/mesh_plan.h"
#include "cli/start/origin.h"
#include "cli/start/train_result.h"
#include "data/task_rules.h"
#include "launch/companion.h"
#include "launch/job/job_runner.h"

namespace trireme::cli {
namespace {

constexpr double kPlanWithin = 10;  // seconds for workers to build their models and report their plan

observe::RunFolder create_folder(const TrainFlags& flags) {
  const std::string model = is_script(flags.model) ? std::filesystem::path(flags.model).stem().string() : flags.model;
  try {
    return observe::RunFolder::create({.path = flags.out, .model = model, .overwrite = flags.overwrite});
  } catch (const IoError& problem) {  // nothing has begun yet: it is the flag that is wrong
    fail<InvalidArgument>("--out {}: {}", flags.out, problem.what());
  }
}

/// Returns the result of a run that has made `steps` steps and more, and was asked for no more; null if it goes on.
nlohmann::json result_of_finished(const observe::RunFolder& folder, Step steps) {
  if (newest_step(folder).value_or(0) < steps || !std::filesystem::exists(folder.result())) return {};
  nlohmann::json result = nlohmann::json::parse(read_file(folder.result()), nullptr, /*allow_exceptions=*/false);
  return result.is_object() && result.value("steps", Step{0}) >= steps ? result : nlohmann::json();
}

/// Errors in the data show before anything starts, as errors of the one who named them.
data::Opened load_before_start(const TrainFlags& flags) {
  try {
    return load_data(flags);
  } catch (const IoError& problem) {
    fail<InvalidArgument>("--data {}: {}", flags.data, problem.what());
  } catch (const Corrupt& problem) {
    fail<InvalidArgument>("--data {}: {}", flags.data, problem.what());
  }
}

void check_goal(const Goal& goal, const std::string& task) {
  const std::vector<std::string> metrics = data::ready_metrics(task);
  if (std::ranges::count(metrics, goal.metric) > 0) return;
  fail<InvalidArgument>("--stop-at {}: there is no metric '{}'{}; task {} has {}", goal.describe(), goal.metric,
                        did_you_mean(goal.metric, metrics), task, fmt::join(metrics, ", "));
}

/// Throws InvalidArgument, naming the field, if the task or the model cannot be had with these samples.
void check_fits(const TrainFlags& flags, const data::Schema& samples, const WorkerProgram& program) {
  const std::string task = flags.task.empty() ? data::fitting_task(samples) : flags.task;
  const bool ready = std::ranges::count(data::ready_tasks(), task) > 0;
  const std::int64_t outputs = ready ? data::outputs_for(task, samples) : 0;
  if (is_script(flags.model)) {
    check_script(flags.model, {.samples = samples, .task = task, .outputs = outputs});
  } else {
    check_model_takes(flags.model, samples);
  }
  if (ready && !flags.stop_at.empty()) check_goal(Goal::parse(flags.stop_at), task);
  check_division(flags, samples);
  if (program.check) program.check(flags, samples);
}

/// What belongs to the run from now on, whatever becomes of the files that were named.
void keep_in_folder(TrainFlags& flags, const observe::RunFolder& folder, const std::string& config,
                    const data::Opened& opened, const WorkerProgram& program) {
  write_file_atomically(folder.config(), as_bytes(config));
  write_file_atomically(folder.data(), as_bytes(opened.encoding.to_json()));
  write_samples(folder, opened.split.train->schema(), flags);
  if (!program.path.empty()) {
    write_file_atomically(folder.trainer(), as_bytes(nlohmann::json{{"program", program.path}}.dump() + "\n"));
  }
  if (!is_script(flags.model)) return;
  const auto kept = std::filesystem::absolute(folder.network());
  if (!std::filesystem::exists(kept)) write_file_atomically(kept, as_bytes(read_file(flags.model)));
  flags.model = kept.string();
}

int tell_end(const launch::JobOutcome& outcome, const observe::RunFolder& folder, const TrainFlags& flags,
             const WorkerProgram& program) {
  if (!outcome.failure.empty()) {
    fmt::print(stderr, "trireme: {}\nlogs: {}\n", outcome.failure, folder.logs().string());
  } else if (outcome.result.is_null()) {
    fmt::print(stderr, "trireme: stopped before there was a result; logs: {}\n", folder.logs().string());
  } else if (flags.json) {
    print_json(outcome.result, folder);
  } else {
    tell_result(outcome, folder, flags, program.command);
  }
  return outcome.status;
}

}  // namespace

std::vector<std::string> worker_words(const WorkerProgram& program, const std::vector<std::string>& words,
                                      const std::string& backend) {
  std::vector<std::string> argv = program.argv;
  if (argv.empty()) {
    argv.push_back(launch::companion_program(backend == "mpi" ? "trireme-mpi-worker" : "trireme-worker"));
  }
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

data::Opened open_checked(const TrainFlags& flags, const WorkerProgram& program) {
  data::Opened opened = load_before_start(flags);
  check_fits(flags, opened.split.train->schema(), program);
  return opened;
}

namespace {

void note_start(const ForeignStart& start, const observe::RunFolder& folder) {
  if (start.run_id().empty()) return;
  const nlohmann::json note{{"launcher", to_string(start.launcher)}, {"run_id", start.run_id()}};
  write_file_atomically(folder.start(), as_bytes(note.dump() + "\n"));
}

/// Whether the run in `path` was begun by the same job of the launcher.
bool is_start_of(const ForeignStart& start, const std::filesystem::path& path) {
  const auto folder = observe::RunFolder::open(path);
  if (start.run_id().empty() || !std::filesystem::exists(folder.start())) return false;
  const auto note = nlohmann::json::parse(read_file(folder.start()), nullptr, /*allow_exceptions=*/false);
  return note == nlohmann::json{{"launcher", to_string(start.launcher)}, {"run_id", start.run_id()}};
}

int train_here(TrainFlags flags, const std::string& config, const WorkerProgram& program,
               std::optional<observe::RunFolder> existing, std::optional<Step> from, const ForeignStart* start,
               RemoteStart* remote) {
  const std::string model = flags.model;  // as people know it
  if (existing && std::filesystem::exists(existing->network())) flags.model = existing->network().string();
  check(flags);
  const std::string init = existing && newest_step(*existing).has_value() ? "" : settle_init(flags);
  const data::Opened opened = open_checked(flags, program);
  const data::Split& data = opened.split;
  if (existing) check_samples(*existing, data.train->size());
  if (start == nullptr && remote == nullptr) check_device_here(flags.device, program);
  const data::Sampler sampler({.samples = data.train->size(),
                               .batch = flags.batch,
                               .lanes = flags.lanes == 0 ? usual_lanes(flags) : flags.lanes,
                               .sharding = data::Sharding::parse(flags.shard)});
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
  worker_words(program, {}, flags.backend);  // is there a program? Before the folder is made
  if (from) go_back_to(*from, *existing);
  if (existing) tell_origin(*existing);
  const auto folder = existing ? *existing : create_folder(flags);
  keep_in_folder(flags, folder, config, opened, program);
  if (start != nullptr) note_start(*start, folder);
  if (!flags.json) {
    const std::string servers = flags.servers == 0 ? "" : " and " + counted(flags.servers, "server");
    fmt::print("{} {} on {} with {}{}, {}\n", existing ? "continuing" : "training", model, data.train->describe(),
               counted(flags.workers, "worker"), servers, describe_strategy(flags));
    if (!init.empty()) fmt::print("{}\n", init);
    std::fflush(stdout);  // before the progress line, which goes to standard error
  }
  for (const std::string& note : opened.notes) fmt::print(stderr, "trireme: {}\n", note);
  if (start == nullptr && remote == nullptr) warn_of_crowding(flags.workers, flags.threads);
  launch::JobSpec job = to_job(flags);
  job.plan_within = kPlanWithin;
  job.threads = flags.threads > 0 ? flags.threads : threads_per_worker(flags.lanes);
  job.worker_argv = worker_words(program, {nlohmann::json(flags).dump()}, flags.backend);
  if (remote != nullptr) remote->prepare(job, folder);
  if (start == nullptr) return tell_end(launch::run_job(job, folder), folder, flags, program);
  const cluster::LaunchedPlace place = take_part_of(*start, flags);
  job.part = to_part(place, folder.path());
  const launch::JobOutcome outcome = launch::run_job(job, folder);
  cluster::withdraw(place);
  return tell_end(outcome, folder, flags, program);
}

/// The run that a launcher's restart continues; nullopt if there is none. A process that the launcher starts for the
/// first time may take part in one too: the others count for themselves.
std::optional<observe::RunFolder> folder_of_restart(const TrainFlags& flags, const ForeignStart& start) {
  if (flags.out.empty() || !std::filesystem::is_directory(flags.out)) return std::nullopt;
  if (start.restarts() == 0 && !is_start_of(start, flags.out)) return std::nullopt;
  auto folder = observe::RunFolder::reopen(flags.out);
  return std::filesystem::exists(folder.config()) ? std::optional(std::move(folder)) : std::nullopt;
}

}  // namespace

int train(TrainFlags flags, const std::string& config, const WorkerProgram& program,
          std::optional<observe::RunFolder> existing, std::optional<Step> from, RemoteStart* remote) {
  return train_here(std::move(flags), config, program, std::move(existing), from, /*start=*/nullptr, remote);
}

int train_part(TrainFlags flags, const std::string& config, const WorkerProgram& program, const ForeignStart& start,
               std::optional<observe::RunFolder> existing) {
  if (start.plan.leads) {
    if (!flags.json) fmt::print("{}\n", describe(start));
    if (!existing) existing = folder_of_restart(flags, start);
    return train_here(std::move(flags), config, program, std::move(existing), {}, &start, /*remote=*/nullptr);
  }
  check(flags);
  if (existing) {
    if (std::filesystem::exists(existing->network())) flags.model = existing->network().string();
    flags.out = existing->path().string();  // where each worker writes its part of a checkpoint
  } else {
    settle_init(flags);
  }
  launch::JobSpec job = to_job(flags);
  job.plan_within = kPlanWithin;
  job.threads = flags.threads > 0 ? flags.threads : threads_per_worker(flags.lanes);
  job.worker_argv = worker_words(program, {nlohmann::json(flags).dump()}, flags.backend);
  return run_beside(job, start, flags);
}

}  // namespace trireme::cli
