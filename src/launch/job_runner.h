#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "net/address.h"
#include "observe/run_folder.h"

namespace trireme::launch {

/// A whole job on this machine.
struct JobSpec {
  std::uint32_t workers = 1;
  std::uint32_t min_workers = 1;  ///< with fewer the job waits for more
  std::uint32_t min_start = 0;    ///< see master::JobShape
  std::uint32_t servers = 1;
  std::uint32_t replicas = 0;     ///< replicas of the parameters on other servers
  std::uint32_t restarts = 3;     ///< of each process before it is avoided for a while
  double wait_for_workers = 600;  ///< seconds to wait when too few are left
  double plan_within = 0;         ///< seconds after the start in which a death waits for the workers' plan
  std::uint64_t max_views = 0;    ///< give up after this many views; 0 = never
  std::string transport = "auto";
  std::string throttle;                  ///< experiments: the speed of links, "100mbit"; empty = no limit
  std::uint32_t latency_ms = 0;          ///< experiments: delay of what workers send each other in the background
  std::string log_level;                 ///< of all processes, see TRIREME_LOG_LEVEL; empty = as in our environment
  bool trace_algorithms = false;         ///< workers log which algorithms they reduce with
  bool trace_steps = false;              ///< loops of your own write down when steps began and took effect
  bool timeline = false;                 ///< workers and servers record what they do when
  int threads = 0;                       ///< compute threads of each worker; 0 = threads_per_worker
  std::string train_options;             ///< see cluster::JobEnvironment
  std::vector<std::string> worker_argv;  ///< the program of every worker
  bool echo_chief = false;               ///< show what worker 0 prints
  bool quiet = false;                    ///< no progress line: standard output is for a script
};

struct JobOutcome {
  int status = 0;         ///< worst of all processes
  nlohmann::json result;  ///< what the chief reported; null if it did not get that far
  std::string failure;    ///< why the job failed, for people; empty = it did not
};

/// Starts master, servers and workers, shows progress, and returns when all have ended. Ctrl-C asks them to finish
/// their step; a second one ends them at once. Leaves no process behind.
JobOutcome run_job(const JobSpec& spec, const observe::RunFolder& folder);

}  // namespace trireme::launch
