#include "trireme/train/trainer.h"

#include <algorithm>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/log.h"
#include "trireme/observe/timeline.h"
#include "trireme/train/lane_computer.h"
#include "trireme/train/make_strategy.h"
#include "trireme/train/schedule.h"

namespace trireme {

namespace {

/// While it lives, the failure of the job interrupts the strategy's waits.
class FailureWatch {
 public:
  FailureWatch(Job& job, Strategy& strategy) : job_(job) {
    job_.on_failure([&strategy](const std::string& reason) { strategy.interrupt(reason); });
  }
  ~FailureWatch() { job_.on_failure(nullptr); }
  FailureWatch(const FailureWatch&) = delete;
  FailureWatch& operator=(const FailureWatch&) = delete;

 private:
  Job& job_;
};

/// Whoever fails tells the others at once, so that they do not wait for a deadline. But who only lost a peer lets the
/// master speak first: it knows who died.
void tell_failure(Job& job, const std::exception& problem) {
  const bool lost_peer = dynamic_cast<const PeerLost*>(&problem) != nullptr;
  const std::string known = lost_peer ? job.wait_for_failure(Deadline::in(1s)) : job.failure();
  if (known.empty()) job.membership().leave(problem.what());
}

}  // namespace

/// One call of fit: everything that lives as long as it.
class Trainer::Run final : public TrainControl {
 public:
  Run(Trainer& trainer, std::shared_ptr<const data::Dataset> train, std::shared_ptr<const data::Dataset> test)
      : job_(trainer.job_),
        model_(trainer.model_),
        options_(trainer.options_),
        test_(std::move(test)),
        sampler_(std::make_shared<data::Sampler>(data::SamplerConfig{
            .samples = train->size(), .batch = options_.batch, .lanes = options_.lanes, .seed = options_.seed})),
        plan_{.steps = options_.steps > 0 ? options_.steps : options_.epochs * sampler_->steps_per_epoch(),
              .steps_per_epoch = sampler_->steps_per_epoch(),
              .batch = options_.batch,
              .lanes = options_.lanes,
              .leased = !options_.consistency.synchronous(),
              .log_every = options_.log_every,
              .strategy = cluster::describe(options_.strategy, ps::to_string(options_.consistency))},
        lr_(make_schedule({.shape = options_.schedule,
                           .warmup = options_.warmup,
                           .steps = plan_.steps,
                           .steps_per_epoch = plan_.steps_per_epoch})),
        strategy_(make_strategy(job_, options_)) {
    if (options_.timeline) start_timeline();
    strategy_->attach(model_);
    computer_.emplace(model_, options_, train->sample_shape());
    job_.membership().set_plan(plan_);
    stream_ = plan_.leased ? make_leased_stream(std::move(train), sampler_, job_.membership())
                           : make_fixed_stream(std::move(train), sampler_,
                                               deal_lanes(options_.lanes, job_.workers())[job_.rank()], plan_.steps);
    if (job_.chief()) add_callbacks();
  }

  TrainResult train() {
    started_ = Deadline::Clock::now();
    for (const auto& callback : callbacks_) callback->on_start(model_, plan_);
    model_.module->train();
    while (auto work = stream_->next(next_step_)) {
      if (!step(std::move(*work))) break;
    }
    return conclude();
  }

  void request_stop(const std::string& reason) override {
    if (stopped_because_.empty()) log_info("stops", {{"reason", reason}});
    stopped_because_ = reason;
    stop_wanted_ = true;
    if (plan_.leased) job_.membership().request_stop(reason);
  }

 private:
  /// One step: fetch (done) -> forward/backward -> aggregate -> commit -> report. False when it was the last.
  bool step(StepWork work) {
    const Step step = work.step;
    const double lr = options_.lr * lr_(step);
    const auto samples = static_cast<double>(work.samples());
    strategy_->begin({.step = plan_.leased ? clock_ : step,
                      .lanes = work.lanes,
                      .samples = samples,
                      .lr = lr,
                      .stop = stop_wanted_ || job_.stop_requested()});
    const auto begin = Deadline::Clock::now();
    const StepStatistics statistics = computer_->compute(work, *strategy_);
    slow_down(Deadline::Clock::now() - begin);
    const auto computed = Deadline::Clock::now();
    const Commit commit = strategy_->finish();
    if (timeline_) {
      timeline_->add({"compute", "forward and backward", begin, computed});
      timeline_->add({"compute", "wait and update", computed, Deadline::Clock::now()});
    }
    stream_->finish(std::move(work));

    clock_ = plan_.leased ? clock_ + 1 : std::max(step + 1, commit.version);
    next_step_ = clock_;
    samples_ += statistics.samples;
    job_.membership().report({.clock = clock_,
                              .samples = statistics.samples,
                              .loss_sum = statistics.loss_sum,
                              .correct = statistics.correct,
                              .lr = lr});
    deliver_rows();
    notice_epoch(plan_.leased ? step : step + 1);
    return !commit.stop;
  }

  void start_timeline() {
    timeline_ = std::make_shared<observe::Timeline>(job_.rank(), fmt::format("worker {}", job_.rank()));
    if (options_.strategy.uses_servers()) return;  // what travels there is not ours to see
    job_.ranks().set_observer([timeline = timeline_](const collective::Operation& operation, auto began, auto ended) {
      timeline->add({"network", operation.label.empty() ? describe(operation) : operation.label, began, ended});
    });
  }

  void write_timeline() const {
    if (!timeline_ || !job_.folder()) return;
    timeline_->write(job_.folder()->path() / fmt::format("timeline-{}.json", job_.rank()));
  }

  /// For experiments with stragglers: makes the step take `slowdown` times as long.
  void slow_down(Deadline::Clock::duration took) const {
    if (options_.slowdown > 1) std::this_thread::sleep_for(took * (options_.slowdown - 1));
  }

  /// Evaluates when the first step of a new epoch is near (bsp) or seen (leases come in any order).
  void notice_epoch(Step step) {
    const std::uint64_t epoch = sampler_->epoch_of(step);
    if (epoch <= epoch_ || step >= plan_.steps) return;
    epoch_ = epoch;
    if (!job_.chief() || !test_ || !options_.evaluate_each_epoch) return;
    strategy_->refresh();
    report_evaluation(step, evaluate(model_, *test_, options_));
  }

  void report_evaluation(Step step, const Evaluation& evaluation) {
    log_info("evaluated", {{"step", step}, {"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}});
    for (const auto& callback : callbacks_) callback->on_evaluation(step, evaluation, *this);
  }

  void deliver_rows() {
    for (const cluster::MetricsRow& row : job_.take_rows()) {
      for (const auto& callback : callbacks_) callback->on_row(row, *this);
    }
  }

  TrainResult conclude() {
    if (stopped_because_.empty() && job_.stop_requested()) stopped_because_ = "asked to stop";
    TrainResult result{.steps = clock_,
                       .samples = samples_,
                       .seconds = seconds(Deadline::Clock::now() - started_),
                       .stopped_because = stopped_because_,
                       .strategy = plan_.strategy};
    result.samples_per_s = static_cast<double>(samples_) / result.seconds;
    strategy_->leave();
    result.communication = strategy_->communication();
    write_timeline();
    if (!job_.chief()) {
      job_.membership().leave();
      return result;
    }
    strategy_->refresh();
    count_whole_job(result);
    if (test_) {
      result.test = evaluate(model_, *test_, options_);
      report_evaluation(result.steps, *result.test);
    }
    result.parameters_sha256 = hash_parameters(*model_.module);
    job_.membership().flush();
    deliver_rows();
    for (const auto& callback : callbacks_) callback->on_end(model_, result);
    job_.membership().post_result(result.json());
    job_.membership().leave();
    return result;
  }

  /// The chief knows what it did itself; the rest follows from the plan, which was carried out unless stopped.
  void count_whole_job(TrainResult& result) const {
    if (plan_.leased) {
      result.steps = stopped_because_.empty() ? plan_.steps : stream_->finished_units() / plan_.lanes;
    }
    std::uint64_t samples = 0;
    const Step epochs = result.steps / plan_.steps_per_epoch;
    samples = epochs * sampler_->config().samples;
    for (Step step = epochs * plan_.steps_per_epoch; step < result.steps; ++step) samples += sampler_->batch_size(step);
    result.samples = samples;
    result.samples_per_s = static_cast<double>(samples) / result.seconds;
  }

  void add_callbacks() {
    callbacks_ = options_.callbacks;
    callbacks_.push_back(write_metrics(job_.folder()->metrics()));
    callbacks_.push_back(write_tensorboard(job_.folder()->tensorboard()));
    callbacks_.push_back(save_final(job_.folder()->model(), job_.folder()->result()));
    if (job_.alone()) callbacks_.push_back(show_progress());
  }

  Job& job_;
  const Model& model_;
  const TrainOptions& options_;
  std::shared_ptr<const data::Dataset> test_;
  std::shared_ptr<const data::Sampler> sampler_;
  const cluster::Plan plan_;
  Schedule lr_;
  std::shared_ptr<observe::Timeline> timeline_;  // also the communicator's, which lives longer
  std::unique_ptr<Strategy> strategy_;
  FailureWatch failure_watch_{job_, *strategy_};
  std::optional<LaneComputer> computer_;
  std::unique_ptr<WorkStream> stream_;
  std::vector<std::shared_ptr<Callback>> callbacks_;  // the chief's
  Deadline::Clock::time_point started_;
  Step clock_ = 0;  // steps this worker has finished
  std::uint64_t epoch_ = 0;
  Step next_step_ = 0;
  std::uint64_t samples_ = 0;
  bool stop_wanted_ = false;
  std::string stopped_because_;
};

Trainer::Trainer(Job& job, Model model, TrainOptions options)
    : job_(job), model_(std::move(model)), options_(std::move(options)) {
  if (options_.lanes == 0) options_.lanes = job.workers();
  if (options_.lanes < job.workers()) {
    fail<InvalidArgument>("{} lanes for {} workers: each worker needs at least one lane", options_.lanes,
                          job.workers());
  }
  if (!(options_.lr > 0))
    fail<InvalidArgument>("a learning rate of {} does not learn: it must be above 0", options_.lr);
  if (options_.accumulate == 0) fail<InvalidArgument>("accumulate is 0: a lane has at least one part");
  ps::validate(options_.optimizer);
  ps::validate(options_.consistency, job.workers());
  if (options_.strategy.kind != cluster::StrategyChoice::Kind::kParameterServer &&
      options_.consistency != ps::Consistency{}) {
    fail<InvalidArgument>("consistency {} is a matter of strategy ps: {} has its own",
                          ps::to_string(options_.consistency), cluster::to_string(options_.strategy));
  }
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  torch::set_num_threads(options_.threads > 0 ? options_.threads
                                              : std::max(1, (cores - 1) / static_cast<int>(options_.lanes)));
  model_.module->to(options_.device);
}

TrainResult Trainer::fit(std::shared_ptr<const data::Dataset> train, std::shared_ptr<const data::Dataset> test) {
  std::optional<Run> run;  // lives until the master knows why: its end may be the first that the others hear
  try {
    run.emplace(*this, std::move(train), std::move(test));
    return run->train();
  } catch (const std::exception& problem) {
    tell_failure(job_, problem);
    throw;
  }
}

}  // namespace trireme
