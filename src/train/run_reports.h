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
#include "train/row_parts.h"

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

  /// What the lanes of a step gave, which was not made before, and took so many seconds.
  void count(const StepWork& work, const std::vector<LaneStatistics>& lanes, double lr, double took_s);

  /// What goes into rows of metrics and is not there yet.
  std::vector<cluster::RowPart> row_parts();

  /// Rows of metrics that have come in.
  void deliver_rows();

  /// On the chief: the step with which it began, and how long the run had trained by then, all launches together.
  Step first_step() const { return first_step_; }
  double seconds_before() const { return seconds_before_; }

  void evaluated(Step step, const Evaluation& evaluation);
  void ended(const TrainResult& result);

  /// The timeline, if there is one, has all of it. Of several processes the launcher makes one file. Throws IoError.
  void finish_timeline() const;

 private:
  void watch_collectives();
  void become_chief(std::optional<Step> at);

  JobSession& job_;
  const Model& model_;
  const TrainOptions& options_;
  const cluster::Plan& plan_;
  TrainControl& control_;
  WorkerTrace trace_;
  RowParts row_parts_;
  Step reported_ = 0;  // steps in `row_parts_`, or before
  View back_in_ = 0;   // the view in which training last went back to a checkpoint
  Step first_step_ = 0;
  double seconds_before_ = 0;
  double seconds_ = 0;                           // of training until the last row
  std::shared_ptr<observe::Timeline> timeline_;  // also the communicator's, which lives longer
  std::shared_ptr<std::atomic<Step>> step_ = std::make_shared<std::atomic<Step>>(0);  // likewise
  Deadline::Clock::time_point step_began_{};
  bool watching_ = false;                             // the communicator
  std::vector<std::shared_ptr<Callback>> callbacks_;  // the chief's
};

}  // namespace trireme
