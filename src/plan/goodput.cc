#include "plan/goodput.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "trireme/random.h"

#include "base/error.h"
#include "base/random.h"

namespace trireme::plan {
namespace {

constexpr double kHour = 3600;  // seconds
constexpr double kWantedFailures = 200;
constexpr double kFewestSteps = 20'000;
constexpr double kMostSteps = 20'000'000;
constexpr std::uint64_t kMostFailures = 1'000'000;  // a job that never gets anywhere ends here

void check_model(const FailureModel& model) {
  const auto sane = [](double value) { return std::isfinite(value) && value >= 0; };
  const bool all = sane(model.step) && sane(model.slow_step) && sane(model.worker_mtbf) && sane(model.checkpoint) &&
                   sane(model.restart) && sane(model.interval) && sane(model.straggler_share);
  if (!all || model.step == 0 || model.workers == 0 || model.straggler_share > 1) {
    fail<InvalidArgument>("goodput: times must be finite and not negative, a step above 0, at least one worker");
  }
}

class JobSimulation {
 public:
  explicit JobSimulation(const FailureModel& model)
      : model_(model), random_(mix_seed(model.seed, model.workers)), slow_random_(mix_seed(model.seed, 1)) {
    const double mtbf = model.worker_mtbf / model.workers;
    result_.interval = model.interval > 0   ? model.interval
                       : model.from_replica ? kHour
                                            : best_interval(model.checkpoint, mtbf);
    if (model.worker_mtbf > 0) {
      for (std::uint32_t worker = 0; worker < model.workers; ++worker) failures_.emplace(lifetime(), worker);
    }
    const double steps = model.worker_mtbf > 0 ? kWantedFailures * mtbf / model.step : kFewestSteps;
    wanted_ = std::clamp(steps, kFewestSteps, kMostSteps) * model.step;
    // One straggler makes the step slow, however many there are.
    any_slow_ = -std::expm1(model.workers * std::log1p(-std::min(model.straggler_share, 1 - 1e-12)));
  }

  Goodput run() {
    while (now_ < wanted_ && result_.failures < kMostFailures) {
      if (due_for_checkpoint()) {
        write_checkpoint();
      } else {
        make_step();
      }
    }
    result_.simulated_seconds = now_;
    result_.steps = saved_steps_ + open_steps_;
    result_.share = static_cast<double>(result_.steps) * model_.step / now_;
    return result_;
  }

 private:
  double lifetime() { return -model_.worker_mtbf * std::log1p(-random_.uniform()); }

  bool due_for_checkpoint() const {
    return model_.checkpoint > 0 && model_.worker_mtbf > 0 && now_ - last_checkpoint_ >= result_.interval &&
           open_steps_ > 0;
  }

  /// Goes on for `seconds`; returns false if a worker failed before their end, and the job has restarted.
  bool pass(double seconds) {
    if (failures_.empty() || failures_.top().first > now_ + seconds) {
      now_ += seconds;
      return true;
    }
    const double failed = failures_.top().first;
    result_.repeated_seconds += std::max(0.0, failed - now_);
    now_ = std::max(now_, failed);
    double ready = now_;
    do {  // who fails during a restart makes it begin again
      const auto [when, worker] = failures_.top();
      failures_.pop();
      ++result_.failures;
      ready = std::max(ready, when) + model_.restart;
      if (when > now_) result_.restart_seconds += when - now_;
      now_ = std::max(now_, when);
      failures_.emplace(ready + lifetime(), worker);
    } while (failures_.top().first <= ready && result_.failures < kMostFailures);
    result_.restart_seconds += ready - now_;
    now_ = ready;
    if (!model_.from_replica) {
      result_.repeated_seconds += open_seconds_;
      open_steps_ = 0;
      open_seconds_ = 0;
      last_checkpoint_ = now_;
    }
    return false;
  }

  void make_step() {
    const bool slow = any_slow_ > 0 && slow_random_.uniform() < any_slow_;
    const double seconds = slow ? model_.slow_step : model_.step;
    if (!pass(seconds)) return;
    ++open_steps_;
    open_seconds_ += seconds;
    result_.straggler_seconds += seconds - model_.step;
  }

  void write_checkpoint() {
    if (!pass(model_.checkpoint)) return;
    result_.checkpoint_seconds += model_.checkpoint;
    saved_steps_ += std::exchange(open_steps_, 0);
    open_seconds_ = 0;
    last_checkpoint_ = now_;
  }

  using Failure = std::pair<double, std::uint32_t>;  // when, which worker

  const FailureModel& model_;
  RandomStream random_;
  RandomStream slow_random_;
  std::priority_queue<Failure, std::vector<Failure>, std::greater<>> failures_;
  double wanted_ = 0;
  double any_slow_ = 0;
  double now_ = 0;
  double last_checkpoint_ = 0;
  std::uint64_t saved_steps_ = 0;
  std::uint64_t open_steps_ = 0;  ///< since the last checkpoint
  double open_seconds_ = 0;
  Goodput result_;
};

}  // namespace

double best_interval(double checkpoint, double mtbf) {
  if (checkpoint <= 0 || mtbf <= 0) return 0;
  const double ratio = checkpoint / (2 * mtbf);
  if (ratio >= 1) return mtbf;
  return std::sqrt(2 * checkpoint * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - checkpoint;
}

double goodput_formula(double checkpoint, double interval, double restart, double mtbf) {
  const double writing = interval > 0 ? checkpoint / (interval + checkpoint) : 0;
  return std::max(0.0, 1 - writing - (interval + checkpoint) / (2 * mtbf) - restart / mtbf);
}

Goodput simulate(const FailureModel& model) {
  check_model(model);
  return JobSimulation(model).run();
}

double slow_step_seconds(const Arrangement& arrangement, const Prediction& prediction, double factor) {
  std::vector<StageTimes> times = prediction.stage_times;
  const ScheduleShape shape = arrangement.schedule_shape();
  const std::vector<Rank> ranks = make_schedule({shape.kind, shape.ranks, 1, shape.chunks}).rank_of_stage;
  std::vector<double> work(shape.ranks, 0);
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    work[ranks[stage]] += times[stage].forward + times[stage].backward();
  }
  const auto busiest = static_cast<Rank>(std::ranges::max_element(work) - work.begin());
  for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
    if (ranks[stage] != busiest) continue;
    times[stage].forward *= factor;
    times[stage].backward_input *= factor;
    times[stage].backward_weight *= factor;
  }
  const double slow = evaluate_long(shape, times, prediction.message_seconds).makespan;
  return prediction.step_seconds + slow - prediction.pipeline_seconds;
}

}  // namespace trireme::plan
