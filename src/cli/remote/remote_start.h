#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/mutex.h"
#include "cli/flags/train_flags.h"
#include "cli/remote/host_list.h"
#include "cli/remote/ssh.h"
#include "launch/job/job_runner.h"
#include "observe/run_folder.h"

namespace trireme::cli {

/// A job whose workers and servers run on other hosts, which ssh reaches; the master is here. Not thread-safe.
class RemoteStart {
 public:
  /// Returns null if the flags name no hosts. Asks the script of --discover once. Throws InvalidArgument.
  static std::shared_ptr<RemoteStart> open(const TrainFlags& flags);

  ~RemoteStart();

  /// After parsing: there are as many workers as the hosts take, unless --workers says otherwise. Throws
  /// InvalidArgument if they do not take as many.
  void adopt(CLI::App& command, TrainFlags& flags) const;

  /// Asks every host whether it can take part: reachable, the same build at the same place, and one of them, which
  /// gets worker 0, sees the run folder. Then tells `job` how its processes get there, and where the master is reached.
  /// With --discover, hosts are watched from now on. Throws InvalidArgument that names the host.
  void prepare(launch::JobSpec& job, const observe::RunFolder& folder);

 private:
  explicit RemoteStart(std::vector<HostSlots> hosts) : hosts_(std::move(hosts)) {}

  std::vector<std::string> carry(const std::string& role, std::uint32_t slot);
  void place() TRIREME_REQUIRES(mutex_);
  void write_map(bool over = false) const TRIREME_REQUIRES(mutex_);
  bool job_is_over();
  std::vector<HostSlots> usable(const std::vector<HostSlots>& named);
  bool is_known(const std::string& host);
  void ask_new(const HostSlots& host);
  void take_hosts(const std::vector<HostSlots>& hosts);
  void use_room();
  void watch_hosts(const std::stop_token& stop);
  void say_once(const std::string& text);

  std::string discover_;
  std::filesystem::path map_;
  std::filesystem::path run_;
  AgentOrder question_;          // what each host is asked before it takes part
  std::uint32_t asked_for_ = 0;  // workers, by the watcher
  std::string said_;             // by the watcher

  mutable Mutex mutex_;  // the watcher changes where processes are, the job starts them
  std::vector<HostSlots> hosts_ TRIREME_GUARDED_BY(mutex_);  // that can take part
  std::set<std::string> without_folder_ TRIREME_GUARDED_BY(mutex_);
  SlotHosts workers_ TRIREME_GUARDED_BY(mutex_);
  SlotHosts servers_ TRIREME_GUARDED_BY(mutex_);
  std::uint32_t worker_count_ TRIREME_GUARDED_BY(mutex_) = 0;  // processes that were started
  std::uint32_t server_count_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::jthread watcher_;  // last: it uses the rest
};

}  // namespace trireme::cli
