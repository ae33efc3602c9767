#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chaos/fault_plan.h"

namespace trireme::chaos {

/// A process of a job on this machine.
struct JobProcess {
  pid_t pid = 0;
  FaultRole role = FaultRole::kWorker;
  std::uint32_t slot = 0;

  bool operator==(const JobProcess&) const = default;
};

/// Returns the role of a process in a job, from its command line and its environment as in /proc (words separated by
/// zero bytes); nullopt if it has none. Pure.
std::optional<JobProcess> identify(pid_t pid, std::string_view command_line, std::string_view environment);

/// Returns the children of `launcher` that belong to its job, without those that have ended but are not reaped yet.
std::vector<JobProcess> job_processes(pid_t launcher);

/// The resources that a process uses at one moment.
struct ProcessUsage {
  std::uint64_t resident_bytes = 0;
  std::uint64_t files = 0;  ///< open descriptors
  std::uint64_t sockets = 0;
  std::uint64_t threads = 0;
};

/// Returns nullopt if there is no such process, or we may not inspect it.
std::optional<ProcessUsage> usage_of(pid_t pid);

/// Returns the content of a file that may vanish at any time, such as those of /proc; empty if it has.
std::string content_of(const std::string& path);

}  // namespace trireme::chaos
