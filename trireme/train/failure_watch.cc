#include "trireme/train/failure_watch.h"

#include "trireme/base/error.h"

namespace trireme {

bool is_loss(const std::exception& problem) {
  return dynamic_cast<const PeerLost*>(&problem) != nullptr || dynamic_cast<const Timeout*>(&problem) != nullptr ||
         dynamic_cast<const StaleView*>(&problem) != nullptr;
}

void tell_failure(Job& job, const std::exception& problem) {
  const bool lost_peer = is_loss(problem);
  const std::string known = lost_peer ? job.wait_for_failure(Deadline::in(1s)) : job.failure();
  const bool for_all = dynamic_cast<const InvalidArgument*>(&problem) != nullptr;
  if (known.empty() && for_all && !job.guest()) job.membership().leave(problem.what());
}

}  // namespace trireme
