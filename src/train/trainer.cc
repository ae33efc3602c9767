#include "trireme/trainer.h"

#include <algorithm>
#include <thread>

#include <torch/utils.h>

#include "trireme/compute_threads.h"
#include "trireme/optimizer.h"

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "cluster/strategy_choice.h"
#include "elastic/peer_failure.h"
#include "job/job_session.h"
#include "job/termination.h"
#include "optim/update_config.h"
#include "ps/consistency.h"
#include "tensor/device/device.h"
#include "tensor/device/out_of_memory.h"
#include "tensor/heap.h"
#include "train/check_task.h"
#include "train/compute/lane_computer.h"
#include "train/compute/tensor_batch.h"
#include "train/evaluator.h"
#include "train/failure_watch.h"
#include "train/given_options.h"
#include "train/make_strategy.h"
#include "train/run_checkpoints.h"
#include "train/run_reports.h"
#include "train/settle_options.h"
#include "train/strategy/parameter_updates.h"

namespace trireme {

namespace {

constexpr const char* kTestSet = "test";
constexpr double kPauseApart = 60;  // seconds: short epochs are no reason to wait for the slowest again and again

/// "ps:bsp", "zero:2 on pipe=2,tensor=1".
std::string describe_strategy(const TrainOptions& options) {
  std::string text = cluster::describe(options.strategy, ps::to_string(options.consistency));
  if (options.mesh.divides_model()) text += " on " + cluster::to_string(options.mesh);
  return text;
}

/// After how many steps leased work pauses, so that what the servers hold can be evaluated by all and saved.
Step plan_pauses(const TrainOptions& options, Step steps_per_epoch) {
  if (options.consistency.synchronous()) return 0;
  const Step every = options.checkpoint.every.value_or(steps_per_epoch);
  return every == 0 && options.evaluate_each_epoch ? steps_per_epoch : every;
}

/// Where the options do not say when pruning ends, it does after three quarters of the run.
void settle_pruning(TrainOptions& options, std::uint64_t samples) {
  if (!options.optimizer.prunes || options.prune.to > 0) return;
  const Step steps_per_epoch = (samples + options.batch - 1) / options.batch;
  options.prune.to = (options.steps > 0 ? options.steps : options.epochs * steps_per_epoch) * 3 / 4;
  if (options.prune.to > options.prune.from) return;
  fail<InvalidArgument>(
      "pruning ends after three quarters of the run, at step {}, and begins at step {}: let it begin earlier "
      "(from=), say when it ends (to=), or train longer",
      options.prune.to, options.prune.from);
}

}  // namespace

/// One call of fit: everything that lives as long as it.
class Trainer::Run final : public TrainControl {
 public:
  Run(Trainer& trainer, data::DatasetPtr train, std::vector<NamedSet> sets)
      : job_(trainer.job_),
        model_(trainer.model_),
        options_(trainer.options_),
        sets_(std::move(sets)),
        sampler_(std::make_shared<data::Sampler>(data::SamplerConfig{.samples = train->size(),
                                                                     .batch = options_.batch,
                                                                     .lanes = options_.lanes,
                                                                     .seed = options_.seed,
                                                                     .sharding = options_.sharding})),
        plan_{.steps = options_.steps > 0 ? options_.steps : options_.epochs * sampler_->steps_per_epoch(),
              .steps_per_epoch = sampler_->steps_per_epoch(),
              .batch = options_.batch,
              .samples_per_epoch = sampler_->config().samples,
              .lanes = options_.lanes,
              .leased = !options_.consistency.synchronous(),
              .elastic = true,
              .log_every = options_.log_every,
              .pause_every = plan_pauses(options_, sampler_->steps_per_epoch()),
              .pause_apart_s = options_.checkpoint.every || evaluates_epochs() ? 0.0 : kPauseApart,
              .balance = options_.balance,
              .strategy = describe_strategy(options_)},
        lr_(optim::make_schedule({.shape = options_.schedule,
                                  .warmup = options_.warmup,
                                  .steps = plan_.steps,
                                  .steps_per_epoch = plan_.steps_per_epoch})),
        train_(std::move(train)) {
    job_.membership().set_plan(plan_);
  }

  /// Trains in one view after the other, until the end.
  TrainResult train() {
    for (;;) {
      try {
        prepare();
        if (job_.learner() && !take_part()) return termination_requested() ? leave_early() : result();
        enter_view();
        const Ending ending = take_steps();
        if (ending == Ending::kRegroup) {
          close_stream();
          if (termination_requested()) return leave_early();
          if (!job_.regroup("others want to come or go")) return result();
          continue;
        }
        strategy_->leave();
        finish_rows();
        evaluate_last();
        checkpoints_.save_last(*strategy_, clock_);
        held_ = strategy_->held();  // the chief then gathers what training never has in one place
        collected_ = strategy_->collect();
        if (job_.chief()) return conclude();
        if (!job_.regroup("all steps are made", /*done=*/true)) return result();
      } catch (const std::exception& problem) {
        if (!is_peer_failure(problem)) throw;
        if (!recover(problem.what())) return result();
      }
    }
  }

  void request_stop(const std::string& reason) override {
    if (stopped_because_.empty()) log_info("training_stopping", "training stops", {{"reason", reason}});
    stopped_because_ = reason;
    stop_wanted_ = true;
    if (plan_.leased) job_.membership().request_stop(reason);
  }

 private:
  enum class Ending { kDone, kRegroup };

  /// What needs none of the others; once.
  void prepare() {
    if (strategy_) return;
    strategy_ = make_strategy(job_, model_, options_, checkpoints_.every(), reports_.spans());
    failure_watch_.emplace(job_, *strategy_);
    if (!options_.mesh.divides_model()) computer_.emplace(model_, options_, reports_.spans());
  }

  /// The others are at work: takes from them what can be had meanwhile, and is then one of them. False if they have
  /// ended the job, or this process was asked to go.
  bool take_part() {
    strategy_->catch_up();
    return !termination_requested() && (!job_.learner() || job_.regroup("is ready to take part"));
  }

  /// Becomes one of the workers of the present view, with the state that they all have.
  void enter_view() {
    const Step step = strategy_->sync_state(
        {.fill = [this](const auto& state, bool initial) { return checkpoints_.restore(state, initial); },
         .open = [this](bool initial) { return checkpoints_.open(initial); }});
    if (!plan_.leased) {
      clock_ = next_step_ = step;
    }
    reports_.enter_view(plan_.leased ? std::nullopt : std::optional(step));
    if (started_ == Deadline::Clock::time_point{}) started_ = Deadline::Clock::now();
    epoch_ = sampler_->epoch_of(clock_);
    const auto own = strategy_->deal();
    const std::vector<LaneRange> lanes = own ? *own : job_.view().deal(options_.lanes);
    const auto memory = batch_memory(options_.device);
    stream_ = plan_.leased ? make_leased_stream(train_, sampler_, job_.membership(), memory)
                           : make_fixed_stream(train_, sampler_, lanes[job_.rank()], clock_, plan_.steps, memory);
    model_.module->train();
    const bool divided = options_.strategy.divides_state() || options_.mesh.divides_model();
    if (clock_ == 0 && divided) checkpoints_.save_first(*strategy_);
    if (job_.view().save && !plan_.leased) checkpoints_.save_as_asked(*strategy_, clock_);
  }

  Ending take_steps() {
    while (auto work = next_work()) {
      if (work->pause) {
        make_use_of_pause(work->step);
        continue;
      }
      if (work->idle) {
        strategy_->pause();
        continue;
      }
      const StepOutcome done = step(std::move(*work));
      if (done.stop) return Ending::kDone;
      if (done.regroup && (plan_.leased || next_step_ < plan_.steps)) return Ending::kRegroup;
    }
    return Ending::kDone;
  }

  /// Leased work: all workers have finished the first `step` steps, and nothing else is under way.
  void make_use_of_pause(Step step) {
    if (evaluates_epochs() && step % plan_.steps_per_epoch == 0) {
      epoch_ = sampler_->epoch_of(step);
      evaluate_all(step, /*together=*/true);
    }
    checkpoints_.save(*strategy_, clock_);
    stream_->pass();
  }

  bool evaluates_epochs() const { return options_.evaluate_each_epoch && !sets_.empty(); }

  std::optional<StepWork> next_work() {
    const auto began = Deadline::Clock::now();
    auto work = stream_->next(next_step_);
    if (work && !work->idle && !work->pause) {
      const auto got = Deadline::Clock::now();
      input_time_ += got - began;
      reports_.spans()->add({.name = "data", .begin = began, .end = got, .step = work->step});
    }
    return work;
  }

  /// Somebody is gone: this worker goes on with the others in the next view that can be entered. False if they have
  /// ended the job without it.
  bool recover(const std::string& reason) {
    log_warn("recovery_started", "leaves the view to continue in another one", {{"step", clock_}, {"reason", reason}});
    close_stream();
    if (std::exchange(in_step_, false)) strategy_->give_up(*computer());
    checkpoints_.abandon();  // somebody's part may never come
    return regroup_after_failure(job_, reason);
  }

  /// What computes the gradients, in a view.
  StepComputer* computer() {
    StepComputer* const own = strategy_->computer();
    return own != nullptr ? own : &*computer_;
  }

  void close_stream() {
    if (stream_) stream_->close();
    stream_.reset();
  }

  /// One step: fetch (done) -> forward/backward -> aggregate -> commit -> report.
  StepOutcome step(StepWork work) {
    const Step step = work.step;
    const double lr = options_.lr * lr_(step);
    const auto samples = static_cast<double>(work.samples());
    checkpoints_.not_scored();
    last_evaluations_.clear();
    const std::uint64_t lanes = work.lanes.count;
    const bool reports = strategy_->reports();
    reports_.begin_step(work, reports);
    strategy_->begin({.step = plan_.leased ? clock_ : step,
                      .unit = step * plan_.lanes + work.lanes.first,
                      .lanes = work.lanes,
                      .samples = samples,
                      .lr = lr,
                      .stop = !plan_.leased && (stop_wanted_ || job_.stop_requested()),  // leases end by themselves
                      .regroup = job_.regroup_wanted()});
    const auto begin = Deadline::Clock::now();
    reset_tensor_peak();
    std::optional<HistogramSink> histograms;
    if (reports_.wants_histograms(step)) histograms.emplace(*strategy_, samples, options_.device);
    in_step_ = true;
    const std::vector<LaneStatistics> statistics =
        computer()->compute(work, histograms ? static_cast<GradientSink&>(*histograms) : *strategy_);
    slow_down(Deadline::Clock::now() - begin);
    const auto computed = Deadline::Clock::now();
    const StepOutcome done = strategy_->finish();
    in_step_ = false;
    step_time_ += Deadline::Clock::now() - begin;
    tensor_peak_ = std::max(tensor_peak_, trireme::tensor_peak());
    reports_.end_step(done.repeated);
    if (histograms && !done.repeated) reports_.write_histograms(*histograms, step);
    if (reports && !done.repeated) reports_.count(work, statistics, lr, seconds(Deadline::Clock::now() - begin));
    stream_->finish(std::move(work));

    const Step before = clock_;
    clock_ = plan_.leased ? clock_ + 1 : std::max(step + 1, done.newest);
    next_step_ = clock_;
    if (!done.repeated) {
      cluster::WorkDone made{.clock = clock_,
                             .lr = lr,
                             .busy_s = seconds(computed - begin),
                             .lanes = lanes,
                             .rows = reports_.row_parts(),
                             .phases = reports_.take_phases()};
      for (const LaneStatistics& lane : statistics) {
        made.samples += lane.samples;
        made.loss_sum += lane.loss_sum;
        trireme::add(made.metrics, lane.metrics);
      }
      samples_ += made.samples;
      job_.membership().report(std::move(made));
    }
    reports_.deliver_rows();
    notice_epoch(plan_.leased ? step : step + 1);
    checkpoints_.save_if_due(*strategy_, before, clock_);
    return done;
  }

  /// For experiments: makes the step take `slowdown` times as long, and `least_step` at least.
  void slow_down(Deadline::Clock::duration took) const {
    if (options_.slowdown > 1) std::this_thread::sleep_for(took * (options_.slowdown - 1));
    if (took < options_.least_step) std::this_thread::sleep_for(options_.least_step - took);
  }

  /// Evaluates when the first step of a new epoch is near (bsp) or seen (leases come in any order; if they did not
  /// pause at its beginning).
  void notice_epoch(Step step) {
    const std::uint64_t epoch = sampler_->epoch_of(step);
    if (epoch <= epoch_ || step >= plan_.steps) return;
    epoch_ = epoch;
    if (!evaluates_epochs()) return;
    const bool together = same_step_everywhere();
    if (together || job_.chief()) evaluate_all(step, together);
  }

  /// Whether all workers are between the same two steps now, and show the same parameters: then all can evaluate.
  bool same_step_everywhere() const {
    const bool own_averages =
        options_.strategy.kind == cluster::StrategyChoice::Kind::kLocalSgd && options_.optimizer.ema > 0;
    return !plan_.leased && options_.consistency.backup_workers == 0 && !own_averages;
  }

  /// Evaluates the common parameters on every set, and tells the callbacks, which are the chief's.
  void evaluate_all(Step step, bool together) {
    const ScopedSpan span(reports_.spans(), "evaluation", step);
    strategy_->refresh();
    last_evaluations_.clear();
    EvaluationPlace place = EvaluationPlace::among(together ? &job_.ranks() : nullptr);
    strategy_->place_evaluation(place);
    for (const NamedSet& set : sets_) last_evaluations_.push_back(evaluate_set(model_, set, options_, place));
    if (together && options_.strategy.uses_servers()) {  // in the next view nobody needs them until all evaluate again
      job_.ranks().run(collective::barrier());
      job_.release_ranks();
    }
    if (!job_.chief()) return;
    const bool again = evaluated_at_ == step;  // the end is repeated if somebody dies in it
    evaluated_at_ = step;
    for (const Evaluation& evaluation : last_evaluations_) {
      if (evaluation.set == kTestSet) checkpoints_.scored(score(options_.task, evaluation));
      if (!again) reports_.evaluated(step, evaluation);
    }
  }

  /// The chief gets the last row of metrics, for which all others report what they have.
  void finish_rows() {
    if (!job_.chief()) return job_.membership().flush();
    if (const Step steps = steps_of_all(); steps > reports_.first_step()) job_.membership().finish_rows(steps);
    reports_.deliver_rows();
  }

  /// When all steps are made: before the last checkpoint, so that this carries its own score.
  void evaluate_last() {
    if (!sets_.empty()) evaluate_all(steps_of_all(), /*together=*/true);
  }

  /// What every worker knows at the end.
  TrainResult result() {
    if (stopped_because_.empty() && job_.stop_requested()) stopped_because_ = "asked to stop";
    TrainResult result{.steps = clock_,
                       .samples = samples_,
                       .seconds = seconds(Deadline::Clock::now() - started_),
                       .stopped_because = stopped_because_,
                       .strategy = plan_.strategy};
    result.samples_per_s = static_cast<double>(samples_) / result.seconds;
    const auto busy = seconds(step_time_ + input_time_);
    if (busy > 0) result.input_share = seconds(input_time_) / busy;
    if (strategy_) {
      result.communication = strategy_->communication();
      result.held = held_ ? held_ : strategy_->held();
      if (result.held) log_held(*result.held, tensor_peak_);
    }
    reports_.finish_timeline();
    return result;
  }

  /// This process was asked to go: the others take over its lanes.
  TrainResult leave_early() {
    log_info("worker_leaving", "leaves the job because of a signal", {{"step", clock_}});
    stopped_because_ = "asked to leave";
    TrainResult mine = result();
    job_.membership().leave();
    return mine;
  }

  TrainResult conclude() {
    TrainResult result = this->result();
    if (!job_.chief()) {
      job_.membership().leave();
      return result;
    }
    strategy_->refresh();
    count_whole_job(result);
    for (const Evaluation& evaluation : last_evaluations_) {
      if (evaluation.set == kTestSet) {
        result.test = evaluation;
      } else {
        result.others.push_back(evaluation);
      }
    }
    const Model& model = collected_ ? *collected_ : model_;
    if (options_.optimizer.prunes) result.sparsity = sparsity_of(*model.module);
    if (const auto scale = strategy_->adaptive_scale()) {
      result.loss_scale = scale->scale;
      result.steps_left_out = static_cast<Step>(scale->skipped);
    }
    result.parameters_sha256 = hash_parameters(*model.module);
    result.state_sha256 = hash_state(*model.module);
    reports_.ended(model, result);
    job_.membership().post_result(result.json());
    job_.membership().leave();
    return result;
  }

  Step steps_of_all() const {
    if (!plan_.leased) return clock_;
    const bool stopped = !stopped_because_.empty() || job_.stop_requested();
    return stopped ? stream_->finished_units() / plan_.lanes : plan_.steps;
  }

  /// The chief knows what it did itself; the rest follows from the plan, which was carried out unless stopped.
  void count_whole_job(TrainResult& result) const {
    result.steps = steps_of_all();
    result.samples = plan_.samples_in(result.steps);
    const std::uint64_t here = result.samples - std::min(result.samples, plan_.samples_in(reports_.first_step()));
    result.samples_per_s = static_cast<double>(here) / result.seconds;
    result.seconds += reports_.seconds_before();
  }

  JobSession& job_;
  const Model& model_;
  const TrainOptions& options_;
  const std::vector<NamedSet> sets_;  // to evaluate on
  std::shared_ptr<const data::Sampler> sampler_;
  const cluster::Plan plan_;
  optim::Schedule lr_;
  data::DatasetPtr train_;
  RunReports reports_{job_, model_, options_, plan_, *this};
  std::unique_ptr<Strategy> strategy_;
  std::optional<FailureWatch> failure_watch_;
  RunCheckpoints checkpoints_{job_, model_, options_, plan_, sampler_->config().samples, reports_.spans()};
  std::optional<LaneComputer> computer_;
  std::unique_ptr<WorkStream> stream_;                    // of the present view
  Deadline::Clock::time_point started_{};                 // training, after all have met for the first time
  Deadline::Clock::duration input_time_{}, step_time_{};  // waiting for samples; making steps
  std::optional<HeldBytes> held_;                         // when all steps were made
  std::uint64_t tensor_peak_ = 0;                         // of all steps
  Step clock_ = 0, next_step_ = 0;                        // steps this worker has finished; where it goes on
  bool in_step_ = false, stop_wanted_ = false;            // computed, in part or whole, and not finished; asked to end
  std::uint64_t epoch_ = 0, samples_ = 0;
  std::optional<Model> collected_;            // at the end, where the model was divided: all of it, on the chief
  std::vector<Evaluation> last_evaluations_;  // since the last step
  std::optional<Step> evaluated_at_;          // the last that callbacks were told of
  std::string stopped_because_;
};

Trainer::Trainer(Job& job, Model model, TrainOptions options)
    : job_(job.session()), model_(std::move(model)), options_(std::move(options)) {
  const cluster::JobEnvironment& place = job_.place();
  set_given_options(options_, job_.take_train_options());
  if (place.trace_steps) options_.trace_steps = true;
  if (place.timeline) options_.timeline = true;
  // Lanes stay, whoever comes and goes.
  settle_options(options_, place.initial_workers > 0 ? place.initial_workers : place.workers);
  if (!options_.mesh.divides_model()) freeze(*model_.module, options_.groups);
  if (!model_.module) model_.module = std::make_shared<torch::nn::Module>("Divided");  // nobody has all of it
  keep_freed_memory();
  set_compute_threads(options_.threads > 0 ? options_.threads : threads_per_worker(options_.lanes));
  use_device(options_.device, options_.deterministic);
  model_.module->to(options_.device);
}

TrainResult Trainer::fit(data::DatasetPtr train, data::DatasetPtr test, std::vector<NamedSet> others) {
  const SigtermLeaves while_it_runs;
  std::optional<Run> run;  // lives until the master knows why: its end may be the first that the others hear
  try {
    options_.task = task_or_ready(options_.task, train->schema());
    settle_pruning(options_, train->size());
    if (test) others.insert(others.begin(), {.name = kTestSet, .samples = std::move(test)});
    for (const NamedSet& set : others) check_set(set, train->schema());
    run.emplace(*this, std::move(train), std::move(others));
    return run->train();
  } catch (const std::exception& problem) {
    if (is_out_of_memory(problem)) {
      const InvalidArgument advice(out_of_memory_advice(problem, options_.mesh.divides_model()));
      run.reset();  // or there may be no memory to say it with
      tell_failure(job_, advice);
      throw advice;
    }
    tell_failure(job_, problem);
    throw;
  }
}

}  // namespace trireme
