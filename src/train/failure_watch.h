#pragma once

#include <string>

#include "job/job_session.h"
#include "train/strategy/strategy.h"

namespace trireme {

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
