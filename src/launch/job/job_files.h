#pragma once

#include <string>

#include "launch/job/job_runner.h"
#include "observe/run_folder.h"

namespace trireme::launch {

/// Returns where the master keeps what must outlive it; empty if it has no such place, or is elsewhere and keeps it out
/// of sight.
std::string find_store(const JobSpec& spec, const observe::RunFolder& folder);

/// Prepares the folder of a run for a launch: removes what an earlier one left there of its master and its end, and
/// leaves the secret for commands that talk to the job later (`trireme scale`), readable by its owner only. Throws
/// IoError.
void begin_job_files(const observe::RunFolder& folder, const std::string& secret);

/// Removes the secret and, for `trireme status`, writes how the launch ended; a failure to do so is logged.
void end_job_files(const observe::RunFolder& folder, const JobOutcome& outcome, bool stopped);

/// All processes have ended: what they recorded becomes one file; a failure to write it is logged.
void merge_job_timeline(const observe::RunFolder& folder);

}  // namespace trireme::launch
