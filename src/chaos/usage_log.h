#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/deadline.h"

#include "chaos/analysis.h"
#include "chaos/job_processes.h"

namespace trireme::chaos {

/// What the processes of a job hold over time: memory, files, sockets, threads. Whoever was there all the time must not
/// hold more and more.
class UsageLog {
 public:
  /// Looks at all of them, if it is time. Call it often.
  void sample(pid_t launcher, const std::vector<JobProcess>& processes);

  /// Of the processes that were there from the first look to the last.
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
