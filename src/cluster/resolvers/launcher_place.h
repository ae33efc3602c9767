#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/types.h"

#include "net/address.h"

namespace trireme::cluster {

/// The environment of a process.
using Variables = std::map<std::string, std::string>;

/// Who started this process.
enum class Launcher {
  kTrireme,     ///< our own variables: `trireme run`, or set by hand
  kTfConfig,    ///< TF_CONFIG: Kubeflow's TFJob
  kTorchrun,    ///< torchrun, Ray Train, Kubeflow's PyTorchJob
  kOpenMpi,     ///< mpirun of Open MPI 4 and 5
  kMpich,       ///< mpiexec of MPICH and its relatives (Hydra)
  kSlurm,       ///< srun, one process per task
  kKubeflow,    ///< Kubeflow Trainer v2: one process per node
  kPsLite,      ///< ps-lite's and MXNet's trackers
  kIndexedJob,  ///< a Kubernetes Indexed Job, or a JobSet, with our manifest
};

/// Its name for people: "Open MPI".
const char* to_string(Launcher launcher);

/// Among the processes of a tracker of ps-lite.
enum class PsLiteRole { kWorker, kServer, kScheduler };

/// The place that a launcher gave this process.
struct LauncherPlace {
  Launcher launcher = Launcher::kTorchrun;
  std::optional<Rank> rank = {};  ///< nullopt: the master gives out ranks by arrival (ps-lite)
  std::uint32_t ranks = 1;        ///< how many processes the launcher started; with `per_node` how many nodes
  std::optional<std::uint32_t> local_rank = {};   ///< among those on this host
  std::optional<std::uint32_t> local_ranks = {};  ///< how many those are
  std::optional<std::uint32_t> node = {};         ///< which of the hosts this is
  std::optional<std::uint32_t> nodes = {};        ///< how many those are
  bool per_node = false;                          ///< the process stands for a node, and starts its workers itself
  std::uint32_t workers_per_node = 0;             ///< then how many; 0 = it decides
  std::optional<net::Address> master = {};        ///< where the launcher wants the first process; port 0 = not said
  bool port_is_ours = true;    ///< false: the port may be held by the launcher itself, so another one follows from it
  std::string job = {};        ///< the same for all processes of this start, and no other's; fit for a file name
  bool names_job = true;       ///< false: another job of this user may have the same `job`
  std::string run_id = {};     ///< the same when the launcher starts the job again, and no other's; empty = not said
  std::uint32_t restarts = 0;  ///< how often the launcher has started the job again; of torchrun, on this host
  std::uint32_t threads = 0;   ///< cores for this process; 0 = not said
  std::string host = {};       ///< the name by which the others know this host; empty = not said
  PsLiteRole role = PsLiteRole::kWorker;  ///< of ps-lite
  std::uint32_t servers = 0;              ///< of ps-lite: processes that are servers, not among `ranks`

  /// Returns whether all processes are on this host, as far as is known.
  bool on_one_host() const;
};

}  // namespace trireme::cluster
