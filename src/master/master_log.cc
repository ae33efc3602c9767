#include "master/master_log.h"

#include "base/error.h"
#include "base/log.h"

namespace trireme::master {

bool MasterLog::save(const SavedJob& job) {
  if (!log_.save) return true;
  try {
    log_.save(to_text(job));
    if (!problem_.empty()) log_info("state_saved", "the state of the job could be saved again");
    problem_.clear();
    return true;
  } catch (const StaleView& other) {
    if (!lost_leadership_)
      log_error("leadership_lost", "another master leads: this one takes no more decisions",
                {{"reason", other.what()}});
    lost_leadership_ = true;
  } catch (const Error& problem) {
    if (problem_.empty())
      log_error("state_not_saved", "cannot save the state of the job; will try again", {{"reason", problem.what()}});
    problem_ = problem.what();
  }
  return false;
}

}  // namespace trireme::master
