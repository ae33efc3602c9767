#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/trainer.h"

#include "cluster/protocol.h"
#include "elastic/worker_trace.h"
#include "job/job_session.h"
#include "observe/phase_clock.h"
#include "observe/span_ring.h"
#include "observe/timeline.h"
#include "tensor/operation_profile.h"
#include "train/compute/work_stream.h"
#include "train/histogram_writer.h"
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

  /// `speaks`: whether this worker speaks for the lanes of its work, which others may compute, too.
  void begin_step(const StepWork& work, bool speaks = true);
  void end_step(bool repeated);

  /// Where the parts of the training say what took how long.
  SpanRecorder* spans() const { return phases_.get(); }

  /// Returns the seconds of this thread by phase since the last call.
  std::vector<double> take_phases() { return phases_->take(); }

  /// Whether histograms of this step are wanted, and written here.
  bool wants_histograms(Step step) const;
  void write_histograms(const HistogramSink& gradients, Step step);

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
  void ended(const Model& model, const TrainResult& result);

  /// The timeline, if there is one, has all of it. Of several processes the launcher makes one file. Throws IoError.
  void finish_timeline() const;

 private:
  void watch_collectives();
  void record_operations();
  void write_profile();
  void become_chief(std::optional<Step> at);
  std::map<std::string, std::string> hyperparameters() const;

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
  std::shared_ptr<observe::SpanRing> ring_;      // likewise, and the heartbeat's
  std::shared_ptr<observe::PhaseClock> phases_;  // also the heartbeat's
  std::shared_ptr<std::atomic<Step>> step_ = std::make_shared<std::atomic<Step>>(0);  // likewise
  Deadline::Clock::time_point step_began_{};
  bool watching_ = false;                             // the communicator
  std::vector<std::shared_ptr<Callback>> callbacks_;  // the chief's
  std::optional<HistogramWriter> histograms_;         // likewise, if they are wanted
  std::optional<OperationProfile> profile_;           // likewise
  Step steps_here_ = 0;                               // that this process began
};

/// Logs what this worker held, in bytes; `tensors` is the most that LibTorch took besides: activations, sums of lanes.
void log_held(const HeldBytes& held, std::uint64_t tensors);

}  // namespace trireme
