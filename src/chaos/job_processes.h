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

/// Which part in a job a process has, by its command line and its environment as /proc tells them (words that end in
/// zero bytes). Nothing if it has none. Pure.
std::optional<JobProcess> identify(pid_t pid, std::string_view command_line, std::string_view environment);

/// The children of `launcher` that have a part in its job. Who has ended but is not reaped yet is not among them.
std::vector<JobProcess> job_processes(pid_t launcher);

/// What a process holds at one moment.
struct ProcessUsage {
  std::uint64_t resident_bytes = 0;
  std::uint64_t files = 0;  ///< open descriptors
  std::uint64_t sockets = 0;
  std::uint64_t threads = 0;
};

/// Nothing if there is no such process, or it is not ours to look at.
std::optional<ProcessUsage> usage_of(pid_t pid);

/// The content of a file that may vanish at any time, such as those of /proc; empty if it has.
std::string content_of(const std::string& path);

}  // namespace trireme::chaos
