#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "cluster/protocol.h"

namespace trireme::cluster {

/// A process's place in a job, as given by its environment.
struct JobEnvironment {
  Role role = Role::kWorker;
  Rank rank = 0;
  std::uint32_t workers = 1;
  std::uint32_t initial_workers = 0;  ///< how many there were at the start, if different; 0 = `workers`
  std::uint32_t servers = 1;
  net::Address master;  ///< port 0 = found through `store`
  std::string store;    ///< where the master is found and keeps what must outlive it; empty = it cannot be replaced
  /// Where to listen: servers for workers, workers for each other. Empty host = see own_host.h; port 0 = any free one.
  net::Address listen{.host = ""};
  bool hosts_master = false;                    ///< this process also runs the master, at `master`
  std::vector<std::uint32_t> own_servers = {};  ///< servers that this process, a worker, also runs
  std::string secret;
  net::Transport transport = net::Transport::kAuto;
  std::uint64_t bits_per_second = 0;     ///< experiments: slow links, without shared memory; 0 = no limit
  std::chrono::milliseconds latency{0};  ///< experiments: delay of what workers send each other in the background
  bool trace_algorithms = false;         ///< log which algorithms workers reduce with, and why
  bool trace_steps = false;              ///< write down when each step of a loop of your own began and took effect
  bool timeline = false;                 ///< record what the process does when; see observe::Timeline
  std::string metrics = {};  ///< where the process serves its own /metrics: see MemberMetrics; empty = nowhere
  LogLevel log_level = LogLevel::kInfo;
  std::string backend = {};   ///< of the collectives: mpi; empty = native
  std::string run_folder;     ///< where results go; empty = the process decides
  std::string train_options;  ///< of a Trainer, as JSON: they win over the program's own; empty = none

  /// Returns how the process logs: as "worker 1" or "server 0".
  LogOptions logging() const;
};

/// Looks up a variable: `std::getenv` in a program, a map in a test.
using Lookup = std::function<const char*(const char* name)>;

/// Returns what the environment says: Trireme's own variables (set by `trireme run`), else TF_CONFIG; nullopt if
/// neither is set: the process is alone, or another launcher has started it (see resolvers/). Throws InvalidArgument
/// that names the variable and what is wrong with it.
///
///   TRIREME_ROLE worker|server   TRIREME_RANK      TRIREME_WORKERS   TRIREME_SERVERS   TRIREME_MASTER host:port
///   TRIREME_LISTEN host:port     TRIREME_TRANSPORT TRIREME_RUN_DIR   TRIREME_SECRET or TRIREME_SECRET_FILE
///   TRIREME_INITIAL_WORKERS for one that joins later
///   TRIREME_STORE sqlite:/folder/job.db, etcd://host:2379, etcds://… (where the master is found when it was replaced,
///   and without TRIREME_MASTER also at the start)
///   TRIREME_THROTTLE 100mbit     TRIREME_LATENCY_MS                  TRIREME_TRACE_ALGORITHMS 1
///   TRIREME_TRACE_STEPS 1        TRIREME_TRAIN_OPTIONS {"codec": "fp16"}: for a Trainer, by the flags' names
///   TRIREME_LOG_LEVEL debug|info|warning|error                       TRIREME_TIMELINE 1
///   TRIREME_BACKEND native|mpi   TRIREME_METRICS 9100: where the process serves its own /metrics
///
/// TF_CONFIG: the jobs are `chief` (or `master`), `worker` and `ps`. Each listens at its own address. The chief is
/// worker 0 and hosts the master at its address; without a chief, worker 0 does. The secret comes from TRIREME_SECRET
/// or TRIREME_SECRET_FILE.
std::optional<JobEnvironment> read_environment(const Lookup& lookup);
std::optional<JobEnvironment> read_environment();  ///< from this process's environment

/// Returns what TRIREME_BACKEND says: "mpi", or empty for the native engine. Throws InvalidArgument.
std::string read_backend(const Lookup& lookup);

/// Returns what TRIREME_METRICS says: see MemberMetrics; empty = the process serves none. Throws InvalidArgument.
std::string read_metrics(const Lookup& lookup);
std::string read_metrics();  ///< from this process's environment

/// Returns the secret in TRIREME_SECRET, or in the file that TRIREME_SECRET_FILE names; empty if neither is set.
/// Throws InvalidArgument if it is shorter than 16 characters, IoError.
std::string read_secret(const Lookup& lookup);

}  // namespace trireme::cluster
