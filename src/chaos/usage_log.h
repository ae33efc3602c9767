#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "chaos/analysis.h"
#include "chaos/job_processes.h"

namespace trireme::chaos {

/// The resource usage of a job's processes over time: memory, files, sockets, threads. It must not grow in processes
/// that were there all the time.
class UsageLog {
 public:
  /// Measures all of them, if it is time. Call it often.
  void sample(pid_t launcher, const std::vector<JobProcess>& processes);

  /// Returns the growth of the processes that were there from the first measurement to the last.
  std::vector<Growth> judge() const;

 private:
  struct Record {
    std::string name;
    std::vector<ProcessUsage> samples;
  };

  void look_at(pid_t pid, const std::string& name);

  Deadline next_ = Deadline::in(0s);
  std::size_t looks_ = 0;
  std::map<pid_t, Record> records_;
};

}  // namespace trireme::chaos
