#include "train/run_reports.h"

#include <fmt/format.h>

#include "base/log.h"
#include "collective/operation.h"

namespace trireme {

RunReports::RunReports(JobSession& job, const Model& model, const TrainOptions& options, const cluster::Plan& plan,
                       TrainControl& control)
    : job_(job), model_(model), options_(options), plan_(plan), control_(control), trace_(job, options.trace_steps) {}

void RunReports::enter_view(std::optional<Step> at) {
  trace_.enter_view(at);
  if (options_.timeline && !timeline_) start_timeline();
  if (!job_.chief()) callbacks_.clear();
  if (job_.chief() && callbacks_.empty()) become_chief();
}

void RunReports::begin_step(const StepWork& work) {
  const auto unit = plan_.leased ? std::optional(work.step * plan_.lanes + work.lanes.first) : std::nullopt;
  trace_.begin(work.step, work.lanes, unit);
}

void RunReports::end_step(bool repeated, Deadline::Clock::time_point began, Deadline::Clock::time_point computed) {
  trace_.end(repeated);
  if (!timeline_) return;
  timeline_->add({"compute", "forward and backward", began, computed});
  timeline_->add({"compute", "wait and update", computed, Deadline::Clock::now()});
}

void RunReports::deliver_rows() {
  for (const MetricsRow& row : job_.take_rows()) {
    for (const auto& callback : callbacks_) callback->on_row(row, control_);
  }
}

void RunReports::evaluated(Step step, const Evaluation& evaluation) {
  log_info("evaluated", "evaluated the model",
           {{"step", step}, {"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}});
  for (const auto& callback : callbacks_) callback->on_evaluation(step, evaluation, control_);
}

void RunReports::ended(const TrainResult& result) {
  for (const auto& callback : callbacks_) callback->on_end(model_, result);
}

void RunReports::start_timeline() {
  timeline_ = std::make_shared<observe::Timeline>(job_.slot(), fmt::format("worker {}", job_.slot()));
  if (options_.strategy.uses_servers()) return;  // what travels there is not ours to see
  job_.ranks().set_observer([timeline = timeline_](const collective::Operation& operation, auto began, auto ended) {
    timeline->add(
        {"network", operation.label.empty() ? collective::describe(operation) : operation.label, began, ended});
  });
}

void RunReports::write_timeline() const {
  if (!timeline_ || !job_.folder()) return;
  timeline_->write(job_.folder()->path() / fmt::format("timeline-{}.json", job_.slot()));
}

void RunReports::become_chief() {
  callbacks_ = options_.callbacks;
  try {
    callbacks_.push_back(write_metrics(job_.folder()->metrics()));
    callbacks_.push_back(write_tensorboard(job_.folder()->tensorboard()));
  } catch (const IoError& problem) {  // a former chief that is stopped may still hold them
    log_error("metrics_disabled", "metrics are not written from now on", {{"reason", problem.what()}});
  }
  callbacks_.push_back(save_final(job_.folder()->model(), job_.folder()->result()));
  if (job_.alone()) callbacks_.push_back(show_progress());
  const RunPlan plan{.steps = plan_.steps,
                     .steps_per_epoch = plan_.steps_per_epoch,
                     .batch = plan_.batch,
                     .lanes = plan_.lanes,
                     .strategy = plan_.strategy};
  for (const auto& callback : callbacks_) callback->on_start(model_, plan);
}

}  // namespace trireme
