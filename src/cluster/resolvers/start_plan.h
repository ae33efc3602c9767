#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/resolvers/launcher_place.h"

namespace trireme::cluster {

/// What is wanted of a job that another launcher starts, and what this process knows of its host.
struct StartWish {
  std::uint32_t servers = 1;                  ///< of the whole job
  std::uint32_t servers_per_host = 0;         ///< if given, instead of `servers`
  std::uint32_t workers_per_node = 1;         ///< where the launcher leaves it open
  bool has_secret = false;                    ///< TRIREME_SECRET or TRIREME_SECRET_FILE is set
  std::filesystem::path meeting_folder = {};  ///< TRIREME_RENDEZVOUS: seen by all hosts; empty = not set
  std::filesystem::path private_folder = {};  ///< of this user, on this host
  std::filesystem::path working_folder = {};  ///< where the process was started
  std::string mpi_parent = {};                ///< of MPICH: a name of the process that started this host's ranks
};

/// Which process hosts the master.
enum class MasterHost {
  kHere,
  kElsewhere,
  kWhoCanBind,  ///< this one, if the address is its host's; the launcher's first process need not be there
};

/// How a process takes part in a job that another launcher started.
struct StartPlan {
  std::uint32_t workers = 1;                    ///< of the whole job
  std::uint32_t servers = 0;                    ///< likewise
  std::vector<std::uint32_t> own_workers = {};  ///< that this process is, or starts; by slot
  std::vector<std::uint32_t> own_servers = {};  ///< that it hosts
  bool claims_slot = false;                     ///< its slot is given out by the master: `own_…` are empty
  MasterHost master = MasterHost::kElsewhere;
  bool leads = false;                       ///< it makes the run folder and tells the result
  bool loopback = false;                    ///< all processes are on this host, and listen nowhere else
  std::filesystem::path meeting_file = {};  ///< where the master's address and the secret are handed over
  net::Address master_at = {};              ///< without a meeting file
  std::vector<std::string> reasons = {};    ///< who is what, and why, a line each
};

/// Returns how the process at `place` takes part.
///
/// Worker r is the process of rank r. The master is with rank 0, or, where the launcher names an address, with the
/// first process on that host. Server k is with worker k; with `servers_per_host` each host's first process has that
/// many. The secret is handed over in a file of mode 0600 in a folder that all see: on one host the user's own, under
/// Slurm and MPI the working folder, anywhere TRIREME_RENDEZVOUS; or everybody was given one (TRIREME_SECRET_FILE).
/// Throws InvalidArgument if there is no way to have one, or if it is not known which host is which.
StartPlan plan_start(const LauncherPlace& place, const StartWish& wish);

}  // namespace trireme::cluster
