#include "train/run_reports.h"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "collective/operation.h"
#include "observe/metrics_file.h"
#include "observe/tensorboard.h"
#include "optim/update_config.h"

namespace trireme {

RunReports::RunReports(JobSession& job, const Model& model, const TrainOptions& options, const cluster::Plan& plan,
                       TrainControl& control)
    : job_(job),
      model_(model),
      options_(options),
      plan_(plan),
      control_(control),
      trace_(job, options.trace_steps),
      row_parts_(plan.log_every) {
  if (options_.timeline && job_.folder()) {
    timeline_ = std::make_shared<observe::Timeline>(*job_.folder(), fmt::format("worker {}", job_.slot()), ::getpid());
  }
  ring_ = std::make_shared<observe::SpanRing>(timeline_);
  phases_ = std::make_shared<observe::PhaseClock>(ring_);
  job_.membership().tell_spans([ring = ring_](const WantedSteps& wanted) { return ring->last_steps(wanted); });
  job_.membership().tell_activity([phases = phases_, &job = job_] {
    const auto now = phases->current();
    return job.with_waits({.what = now.what == nullptr ? "" : now.what, .step = now.step, .for_s = now.for_s});
  });
}

void RunReports::enter_view(std::optional<Step> at) {
  trace_.enter_view(at);
  if (!std::exchange(watching_, true)) watch_collectives();
  if (at && *at < reported_) {  // back to a checkpoint
    row_parts_.clear();
    reported_ = *at;
    back_in_ = job_.view().view;
    if (!callbacks_.empty()) job_.membership().take_rows_after(*at, back_in_);
  }
  if (!job_.chief()) {
    callbacks_.clear();
    histograms_.reset();
  }
  if (job_.chief() && callbacks_.empty()) become_chief(at);
}

void RunReports::begin_step(const StepWork& work, bool speaks) {
  const auto unit = plan_.leased ? std::optional(work.step * plan_.lanes + work.lanes.first) : std::nullopt;
  trace_.begin(work.step, speaks ? work.lanes : LaneRange{work.lanes.first, 0}, unit);
  step_->store(work.step);
  if (options_.profile_steps > 0) record_operations();
  step_began_ = Deadline::Clock::now();
}

void RunReports::end_step(bool repeated) {
  trace_.end(repeated);
  ring_->add({.name = "step", .begin = step_began_, .end = Deadline::Clock::now(), .step = step_->load()});
}

/// The first steps choose algorithms and allocate: they are not recorded.
void RunReports::record_operations() {
  constexpr Step kWarmUp = 10;
  if (steps_here_++ == kWarmUp && job_.chief() && job_.folder()) profile_.emplace(options_.device);
  if (profile_ && steps_here_ > kWarmUp + options_.profile_steps) write_profile();
}

void RunReports::write_profile() {
  const std::filesystem::path folder = job_.folder()->profile();
  const OperationCosts costs = profile_->finish(folder / "trace.json");
  profile_.reset();
  nlohmann::json summary = to_json(costs);
  summary["steps"] = options_.profile_steps;
  const std::string text = summary.dump(1) + "\n";
  write_file_atomically(folder / "operations.json", std::as_bytes(std::span(text)));
  log_info(
      "profile_written", "recorded the operations of some steps",
      {{"steps", options_.profile_steps}, {"seconds", costs.seconds}, {"file", (folder / "operations.json").string()}});
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

bool RunReports::wants_histograms(Step step) const { return histograms_ && step % options_.histograms_every == 0; }

void RunReports::write_histograms(const HistogramSink& gradients, Step step) {
  const ScopedSpan span(spans(), "histograms", step);
  histograms_->write(model_, gradients, step);
}

void RunReports::deliver_rows() {
  for (MetricsRow& row : job_.take_rows()) {
    row.seconds = seconds_ += row.interval_s;
    for (const auto& callback : callbacks_) callback->on_row(row, control_);
  }
}

void RunReports::evaluated(Step step, const Evaluation& evaluation) {
  std::string metrics;
  for (const NamedValue& metric : evaluation.metrics) metrics += (metrics.empty() ? "" : ", ") + describe(metric);
  log_info("evaluated", "evaluated the model",
           {{"step", step}, {"set", evaluation.set}, {"loss", evaluation.loss}, {"metrics", metrics}});
  for (const auto& callback : callbacks_) callback->on_evaluation(step, evaluation, control_);
}

void RunReports::ended(const Model& model, const TrainResult& result) {
  if (profile_) write_profile();  // there were fewer steps
  for (const auto& callback : callbacks_) callback->on_end(model, result);
}

/// Sums that travel beside the computation, on another thread. With servers what travels is recorded where it is sent.
void RunReports::watch_collectives() {
  if (options_.strategy.uses_servers()) return;
  job_.ranks().set_observer(
      [ring = ring_, step = step_](const collective::Operation& operation, auto began, auto ended) {
        const std::string what = operation.label.empty() ? collective::describe(operation) : operation.label;
        ring->add({.name = "all-reduce " + what, .begin = began, .end = ended, .step = step->load(), .overlaps = true});
      });
}

void RunReports::finish_timeline() const {
  if (!timeline_) return;
  timeline_->flush();
  if (job_.alone()) observe::merge_timeline(*job_.folder());
}

std::map<std::string, std::string> RunReports::hyperparameters() const {
  return {{"batch", fmt::to_string(options_.batch)},
          {"lanes", fmt::to_string(options_.lanes)},
          {"lr", fmt::to_string(options_.lr)},
          {"optimizer", std::string(optim::to_string(options_.optimizer.rule))},
          {"seed", fmt::to_string(options_.seed)},
          {"steps", fmt::to_string(plan_.steps)},
          {"strategy", plan_.strategy},
          {"warmup", fmt::to_string(options_.warmup)}};
}

/// Goes on where a former chief, or launch, ended.
void RunReports::become_chief(std::optional<Step> at) {
  callbacks_ = options_.callbacks;
  Step written = 0;
  try {
    if (at) observe::drop_rows_after(job_.folder()->metrics(), *at);  // they are made again
    if (const nlohmann::json last = observe::last_train_row(job_.folder()->metrics()); !last.is_null()) {
      seconds_ = seconds_before_ = last.value("seconds", 0.0);
      written = last.value("step", Step{0});
    }
    callbacks_.push_back(write_metrics(job_.folder()->metrics()));
    callbacks_.push_back(write_tensorboard(job_.folder()->tensorboard(), hyperparameters()));
    if (options_.histograms_every > 0) {
      histograms_.emplace(job_.folder()->tensorboard() / "histograms", at.value_or(written));
    }
  } catch (const IoError& problem) {  // a former chief that is stopped may still hold them
    log_error("metrics_disabled", "metrics are not written from now on", {{"reason", problem.what()}});
  }
  job_.membership().take_rows_after(written, back_in_);
  callbacks_.push_back(save_final(job_.folder()->model(), job_.folder()->result()));
  if (job_.alone()) callbacks_.push_back(show_progress());
  const RunPlan plan{.steps = plan_.steps,
                     .steps_per_epoch = plan_.steps_per_epoch,
                     .batch = plan_.batch,
                     .lanes = plan_.lanes,
                     .strategy = plan_.strategy,
                     .first_step = at.value_or(written),
                     .best_by = options_.task.best_by};
  first_step_ = plan.first_step;
  for (const auto& callback : callbacks_) callback->on_start(model_, plan);
}

void log_held(const HeldBytes& held, std::uint64_t tensors) {
  log_info("memory_held", "held this much memory, in bytes",
           {{"parameters", held.parameters},
            {"gradients", held.gradients},
            {"optimizer", held.optimizer},
            {"in_transit", held.in_transit},
            {"tensors", tensors}});
}

}  // namespace trireme
