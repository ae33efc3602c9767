#pragma once

#include <optional>

#include "job/job_session.h"
#include "observe/step_trace.h"

namespace trireme {

/// The trace of a worker's steps in the run's folder, through all views. Does nothing if it is not wanted, or the job
/// has no folder.
class WorkerTrace {
 public:
  /// `job` outlives this object. Throws IoError.
  WorkerTrace(JobSession& job, bool wanted);

  /// A step begins, or a unit of one.
  void begin(Step step, LaneRange lanes, std::optional<std::uint64_t> unit = {});

  /// It has taken effect, or (`repeated`) had before.
  void end(bool repeated = false);

  /// Another view goes on with step `at` (nullopt: work is leased): a step that was interrupted has taken effect if the
  /// others are beyond it. Writes that down too: the process that made such a step may not have lived to say so.
  void enter_view(std::optional<Step> at);

 private:
  void add(observe::StepEvent::Kind kind);

  JobSession& job_;
  std::optional<observe::StepTrace> trace_;
  std::optional<observe::StepEvent> in_progress_;
};

}  // namespace trireme
