#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/flags/train_flags.h"
#include "cluster/launched_place.h"
#include "launch/job/job_runner.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// That another launcher (mpirun, srun, torchrun, …) has started this command, as one of several that are one job.
struct ForeignStart {
  cluster::Launcher launcher = cluster::Launcher::kTorchrun;
  std::optional<cluster::LauncherPlace> place = {};       ///< of all but TF_CONFIG
  std::optional<cluster::JobEnvironment> tf_config = {};  ///< of that
  cluster::StartPlan plan = {};

  std::uint32_t restarts() const { return place ? place->restarts : 0; }
  std::string run_id() const { return place ? place->run_id : ""; }
};

/// Returns how this command was started; nullopt if it is alone, or if Trireme itself has started it. Throws
/// InvalidArgument if the environment is invalid or contradicts itself.
std::optional<ForeignStart> find_foreign_start(const TrainFlags& flags);

/// After parsing: how many workers and servers there are is the launcher's business, and so is the number of threads
/// where it gives out cores. Throws InvalidArgument if --workers or --servers says otherwise.
void adopt(const ForeignStart& start, CLI::App& command, TrainFlags& flags);

/// Throws InvalidArgument if --backend mpi is wanted, and the processes are not MPI's, or not workers alone.
void check_backend(const TrainFlags& flags, const std::optional<ForeignStart>& start);

/// What there is to know of one's part, for people.
std::string describe(const ForeignStart& start);

/// Takes the process's part; waits until the master can be reached, if it is elsewhere. Throws as
/// cluster::take_launched_place does.
cluster::LaunchedPlace take_part_of(const ForeignStart& start, const TrainFlags& flags);

/// Returns the part for `launch::run_job`. `place` has to outlive the job.
launch::JobPart to_part(const cluster::LaunchedPlace& place, const std::filesystem::path& run_folder);

/// Returns the folder where a process that does not lead has its logs: the run's own if this host sees it, else one of
/// the same name here.
observe::RunFolder folder_beside(const cluster::LaunchedPlace& place, const TrainFlags& flags);

/// Runs the part of a process that does not lead. Returns its exit status.
int run_beside(launch::JobSpec job, const ForeignStart& start, const TrainFlags& flags);

}  // namespace trireme::cli
