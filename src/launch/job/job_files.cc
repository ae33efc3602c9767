#include "launch/job/job_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "launch/private_file.h"
#include "observe/timeline.h"
#include "store/store.h"

namespace trireme::launch {

std::string find_store(const JobSpec& spec, const observe::RunFolder& folder) {
  const std::filesystem::path file = std::filesystem::absolute(folder.path() / "master.db");
  const bool elsewhere = spec.part && !spec.part->has_master;
  if (!store::sqlite_store_available() || (elsewhere && !std::filesystem::exists(file))) return "";
  return "sqlite:" + file.string();
}

void begin_job_files(const observe::RunFolder& folder, const std::string& secret) {
  for (const char* leftover : {"master.db", "master.db-wal", "master.db-shm", "master.db.lock", "master.db.reserve"}) {
    std::filesystem::remove(folder.path() / leftover);
  }
  std::filesystem::remove(folder.outcome());
  std::filesystem::remove(folder.page());
  write_private_file(folder.path() / "secret", secret + "\n");
}

void end_job_files(const observe::RunFolder& folder, const JobOutcome& outcome, bool stopped) {
  const nlohmann::json text{
      {"status", outcome.status}, {"failure", outcome.failure}, {"result", outcome.result}, {"stopped", stopped}};
  try {
    std::filesystem::remove(folder.path() / "secret");
    std::filesystem::remove(folder.page());
    write_file_atomically(folder.outcome(), as_bytes(text.dump(2) + "\n"));
  } catch (const std::exception& problem) {
    log_warn("outcome_not_written", "how the run ended is not in its folder", {{"reason", problem.what()}});
  }
}

void merge_job_timeline(const observe::RunFolder& folder) {
  try {
    observe::merge_timeline(folder);
  } catch (const IoError& problem) {  // no reason for the job to fail
    log_warn("timeline_not_written", "the timeline could not be written", {{"reason", problem.what()}});
  }
}

}  // namespace trireme::launch
