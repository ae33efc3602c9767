#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/resolvers/launcher_place.h"

namespace trireme::cluster {

/// What one launcher's variables say.
struct LauncherAnswer {
  std::optional<LauncherPlace> place = {};
  std::string reason = {};  ///< what the place was read from, or why there is none; empty = no variable of it is set
};

// One per launcher. All throw InvalidArgument that names the variable if a value is invalid.

/// RANK, WORLD_SIZE and MASTER_ADDR, all three. LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE if they are
/// there (a PyTorchJob has none of them: a process per pod). MASTER_PORT may be held by torchrun's own store.
LauncherAnswer resolve_torchrun(const Variables& variables);

/// OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE, which Open MPI 4 and 5 both set.
LauncherAnswer resolve_open_mpi(const Variables& variables);

/// PMI_RANK and PMI_SIZE, but only with MPI_LOCALRANKID: srun sets the first two as well.
LauncherAnswer resolve_mpich(const Variables& variables);

/// A step with several tasks. Without a step (sbatch, an interactive shell) SLURM_PROCID is 0 for everybody.
LauncherAnswer resolve_slurm(const Variables& variables);

/// PET_*: of a node, which has several processes.
LauncherAnswer resolve_kubeflow(const Variables& variables);

/// DMLC_ROLE, DMLC_PS_ROOT_URI, …; not XGBoost's DMLC_TRACKER_*.
LauncherAnswer resolve_ps_lite(const Variables& variables);

/// JOB_COMPLETION_INDEX, with TRIREME_PODS (how many) and TRIREME_SERVICE (the headless service) from our manifest.
LauncherAnswer resolve_indexed_job(const Variables& variables);

/// What became of a launcher's variables.
struct LauncherFinding {
  Launcher launcher = Launcher::kTrireme;
  bool taken = false;
  std::string reason = {};

  bool operator==(const LauncherFinding&) const = default;
};

struct Resolution {
  std::optional<Launcher> launcher = {};       ///< nullopt: nobody; the process is alone
  std::optional<LauncherPlace> place = {};     ///< not with kTrireme and kTfConfig: see read_environment
  std::vector<LauncherFinding> findings = {};  ///< of those whose variables are there, in the order of precedence
};

/// Returns the first launcher, in the order of `Launcher`, whose variables give a place with other processes, and what
/// became of the others. Throws InvalidArgument: a value is invalid, or two disagree on the number of processes. The
/// latter is no contradiction where one launcher started the other, a process per node, or where TRIREME_ROLE says
/// everything.
Resolution resolve(const Variables& variables);

/// Returns this process's environment.
Variables own_variables();

}  // namespace trireme::cluster
