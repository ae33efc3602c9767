#include "elastic/peer_failure.h"

#include <thread>

#include "base/error.h"
#include "base/log.h"

namespace trireme {

bool is_peer_failure(const std::exception& problem) {
  return dynamic_cast<const PeerLost*>(&problem) != nullptr || dynamic_cast<const Timeout*>(&problem) != nullptr ||
         dynamic_cast<const StaleView*>(&problem) != nullptr;
}

void tell_failure(JobSession& job, const std::exception& problem) {
  const bool lost_peer = is_peer_failure(problem);
  const std::string known = lost_peer ? job.wait_for_failure(Deadline::in(1s)) : job.failure();
  const bool for_all = dynamic_cast<const InvalidArgument*>(&problem) != nullptr;
  if (!known.empty() || !for_all || job.learner()) return;
  try {
    job.membership().leave(problem.what());
  } catch (const Error& refused) {  // what this worker fails with is `problem`
    log_warn("failure_not_told", "the job does not learn of this failure", {{"reason", refused.what()}});
  }
}

bool regroup_after_failure(JobSession& job, std::string reason) {
  for (;;) {
    try {
      return job.regroup(reason);
    } catch (const std::exception& problem) {
      if (!is_peer_failure(problem)) throw;
      if (const std::string known = job.failure(); !known.empty()) fail<PeerLost>("{}", known);
      reason = problem.what();
      log_warn("view_entry_failed", "could not enter the view", {{"reason", reason}});
      std::this_thread::sleep_for(10ms);  // if it is the master that fails, this will soon be known
    }
  }
}

}  // namespace trireme
