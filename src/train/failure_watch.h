#pragma once

#include <exception>
#include <string>

#include "job/job_session.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Whether somebody else's end, or silence, is behind it: then another view may do better.
bool is_peer_failure(const std::exception& problem);

/// Whoever fails tells the others at once, so that they do not wait for a deadline. But who only lost a peer lets the
/// master speak first: it knows who died. Nobody is told of what a restarted process may do better: its end is noticed,
/// and the others go on. Nor of what is wrong with a learner: they go on without it.
void tell_failure(JobSession& job, const std::exception& problem);

/// While it lives, the failure of the job, or the loss of a member of the view, interrupts the strategy's waits.
class FailureWatch {
 public:
  FailureWatch(JobSession& job, Strategy& strategy) : job_(job) {
    job_.on_failure([&strategy](const std::string& reason) { strategy.interrupt(reason); });
  }
  ~FailureWatch() { job_.on_failure(nullptr); }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  JobSession& job_;
};

}  // namespace trireme
