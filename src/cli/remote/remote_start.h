#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/remote/host_list.h"
#include "cli/train_flags.h"
#include "launch/job_runner.h"
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

  /// Asks every host whether it can take part: reachable, the same build at the same place, and the host of worker 0
  /// sees the run folder. Then tells `job` how its processes get there, and where the master is reached. With
  /// --discover, hosts are watched from now on. Throws InvalidArgument that names the host.
  void prepare(launch::JobSpec& job, const observe::RunFolder& folder);

 private:
  explicit RemoteStart(std::vector<HostSlots> hosts) : hosts_(std::move(hosts)) {}

  void write_map(bool over = false) const;
  bool job_is_over() const;
  void watch_hosts(const std::stop_token& stop);

  std::vector<HostSlots> hosts_;
  std::string discover_;
  std::filesystem::path map_;
  std::filesystem::path run_;
  SlotHosts workers_;
  SlotHosts servers_;
  std::uint32_t worker_count_ = 0;
  std::uint32_t server_count_ = 0;
  std::jthread watcher_;  // last: it uses the rest
};

}  // namespace trireme::cli
