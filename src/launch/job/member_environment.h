#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launch/job/job_runner.h"
#include "net/address.h"
#include "observe/run_folder.h"

namespace trireme::launch {

/// A worker or a server of a job, and how it finds the others.
struct JobMember {
  std::string role;
  std::uint32_t rank = 0;
  net::Address master = {};
  std::string store = {};
};

/// Returns the words that start a master of the job.
std::vector<std::string> master_words(const JobSpec& spec, const observe::RunFolder& folder, const std::string& store);

/// Returns what a process of the job is told by its environment: see cluster::read_environment; but for the secret.
std::map<std::string, std::string> member_environment(const JobSpec& spec, const observe::RunFolder& folder,
                                                      const JobMember& member);

}  // namespace trireme::launch
