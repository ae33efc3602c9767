#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/trainer.h"

#include "cluster/protocol.h"
#include "elastic/worker_trace.h"
#include "job/job_session.h"
#include "observe/timeline.h"
#include "train/compute/work_stream.h"

namespace trireme {

/// What a worker tells of its training: the trace of its steps and the timeline, each where asked for; and, on the
/// chief, all callbacks. Used by the training thread.
class RunReports {
 public:
  /// All of them outlive this object.
  RunReports(JobSession& job, const Model& model, const TrainOptions& options, const cluster::Plan& plan,
             TrainControl& control);

  /// The worker is one of a view's; `at` = the step it goes on with, nullopt where work is leased. Whoever becomes the
  /// chief writes the files of the run from now on.
  void enter_view(std::optional<Step> at);

  void begin_step(const StepWork& work);
  void end_step(bool repeated);

  /// Where the parts of the training say what took how long; null if nobody wants to know.
  SpanRecorder* spans() const { return timeline_.get(); }

  /// Rows of metrics that have come in.
  void deliver_rows();

  void evaluated(Step step, const Evaluation& evaluation);
  void ended(const TrainResult& result);

  /// The timeline, if there is one, has all of it. Of several processes the launcher makes one file. Throws IoError.
  void finish_timeline() const;

 private:
  void watch_collectives();
  void become_chief();

  JobSession& job_;
  const Model& model_;
  const TrainOptions& options_;
  const cluster::Plan& plan_;
  TrainControl& control_;
  WorkerTrace trace_;
  std::shared_ptr<observe::Timeline> timeline_;  // also the communicator's, which lives longer
  std::shared_ptr<std::atomic<Step>> step_ = std::make_shared<std::atomic<Step>>(0);  // likewise
  Deadline::Clock::time_point step_began_{};
  bool watching_ = false;                             // the communicator
  std::vector<std::shared_ptr<Callback>> callbacks_;  // the chief's
};

}  // namespace trireme
