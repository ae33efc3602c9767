#include "train/run_reports.h"

#include <fmt/format.h>

#include "base/log.h"
#include "collective/operation.h"
#include "observe/metrics_file.h"
#include "observe/tensorboard.h"

namespace trireme {

RunReports::RunReports(JobSession& job, const Model& model, const TrainOptions& options, const cluster::Plan& plan,
                       TrainControl& control)
    : job_(job),
      model_(model),
      options_(options),
      plan_(plan),
      control_(control),
      trace_(job, options.trace_steps),
      row_parts_(plan.log_every) {}

void RunReports::enter_view(std::optional<Step> at) {
  trace_.enter_view(at);
  if (options_.timeline && !timeline_) start_timeline();
  if (at && *at < reported_) {  // back to a checkpoint
    row_parts_.clear();
    reported_ = *at;
    back_in_ = job_.view().view;
    if (!callbacks_.empty()) job_.membership().take_rows_after(*at, back_in_);
  }
  if (!job_.chief()) callbacks_.clear();
  if (job_.chief() && callbacks_.empty()) become_chief(at);
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

void RunReports::count(const StepWork& work, const std::vector<LaneStatistics>& lanes, double lr, double took_s) {
  const double now = observe::unix_time();
  row_parts_.add(work.step, work.lanes.first, lanes, lr, now - took_s, now);
  reported_ = std::max(reported_, work.step + 1);
}

std::vector<cluster::RowPart> RunReports::row_parts() {
  row_parts_.forget(job_.membership().rows_taken());
  return row_parts_.all();
}

void RunReports::deliver_rows() {
  for (MetricsRow& row : job_.take_rows()) {
    row.seconds = seconds_ += row.interval_s;
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

/// Goes on where a former chief, or launch, ended.
void RunReports::become_chief(std::optional<Step> at) {
  callbacks_ = options_.callbacks;
  if (at) observe::drop_rows_after(job_.folder()->metrics(), *at);  // they are made again
  const nlohmann::json last = observe::last_train_row(job_.folder()->metrics());
  seconds_ = seconds_before_ = last.is_null() ? 0.0 : last.value("seconds", 0.0);
  const Step written = last.is_null() ? 0 : last.value("step", Step{0});
  job_.membership().take_rows_after(written, back_in_);
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
                     .strategy = plan_.strategy,
                     .first_step = at.value_or(written)};
  first_step_ = plan.first_step;
  for (const auto& callback : callbacks_) callback->on_start(model_, plan);
}

}  // namespace trireme
