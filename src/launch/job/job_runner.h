#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "net/address.h"
#include "observe/run_folder.h"

namespace trireme::launch {

/// The part of a job that this process starts, where another launcher starts the rest elsewhere.
struct JobPart {
  std::vector<std::uint32_t> workers = {};  ///< their slots
  std::vector<std::uint32_t> servers = {};
  bool has_master = true;    ///< it is started here
  net::Address master = {};  ///< else where it is
  net::Address listen = {};  ///< of a master that is started here
  std::string secret = {};   ///< of the job
  bool leads = true;         ///< the run folder is ours to write, the result ours to tell
  std::function<void(const net::Address& master)> on_listening = {};  ///< of a master that is started here
  std::function<void()> on_begun = {};                                ///< all members have joined
};

/// A job on this machine: all of it, or a part.
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
  std::string dash = "127.0.0.1:0";      ///< where its page is served; "off" = nowhere
  std::string dash_cert;                 ///< of its page: see MasterFlags
  std::string metrics;                   ///< of workers and servers, see TRIREME_METRICS; empty = they serve none
  std::string on_event;                  ///< who is told of events: see dash::EventHooks; empty = nobody
  bool quiet = false;                    ///< no progress line: standard output is for a script
  std::string backend;                   ///< of the collectives, see TRIREME_BACKEND; empty = the usual one
  std::optional<JobPart> part = {};      ///< nullopt = the whole job is started here
  std::string listen;                    ///< host:port of the master; empty = loopback

  /// Returns the words before the command of a worker or a server ("worker", 3) that carry it to another host; none if
  /// it runs here. Null: all run here.
  std::function<std::vector<std::string>(const std::string& role, std::uint32_t slot)> carrier = {};
};

struct JobOutcome {
  int status = 0;           ///< worst of all processes
  nlohmann::json result;    ///< what the chief reported; null if it did not get that far
  std::string failure;      ///< why the job failed, for people; empty = it did not
  bool may_repeat = false;  ///< it had begun, and died with a process of it that its loop cannot do without
};

/// Starts master, servers and workers, shows progress, and returns when all have ended. Ctrl-C asks them to finish
/// their step; a second one ends them at once. Leaves no process behind.
JobOutcome run_job(const JobSpec& spec, const observe::RunFolder& folder);

}  // namespace trireme::launch
