#pragma once

#include <cstdint>

#include "plan/predict.h"

namespace trireme::plan {

/// What can go wrong with a job, and what it costs.
struct FailureModel {
  std::uint32_t workers = 1;
  double step = 1;             ///< seconds, if all goes well
  double slow_step = 1;        ///< seconds with a straggler
  double straggler_share = 0;  ///< the probability that a worker is slow in a step
  double worker_mtbf = 0;      ///< seconds between two failures of one worker, on average; 0 = none fails
  double checkpoint = 0;       ///< seconds that writing a checkpoint stops the training
  double restart = 0;          ///< seconds from a failure until the workers compute again
  double interval = 0;         ///< seconds between checkpoints; 0 = `best_interval`, with replicas an hour
  bool from_replica = false;   ///< survivors hold all state: a failure costs the current step and `restart` only
  std::uint64_t seed = 1;
};

struct Goodput {
  double share = 0;  ///< of the time in which steps were made that count, at the pace of no straggler
  double interval = 0;
  double simulated_seconds = 0;
  std::uint64_t steps = 0;
  std::uint64_t failures = 0;
  double checkpoint_seconds = 0;
  double repeated_seconds = 0;  ///< computed, and lost with a failure
  double restart_seconds = 0;
  double straggler_seconds = 0;
};

/// Returns the seconds between checkpoints that lose the least, for a job (not a worker) that fails every `mtbf`
/// seconds on average: Daly's refinement of Young's sqrt(2 · checkpoint · mtbf) (Daly 2006,
/// doi:10.1016/j.future.2004.11.016).
double best_interval(double checkpoint, double mtbf);

/// Returns what theory leaves of the time for small checkpoint / mtbf: 1 less the shares of writing, repeating and
/// restarting.
double goodput_formula(double checkpoint, double interval, double restart, double mtbf);

/// Runs a job by discrete events: steps, checkpoints, and for each worker its own failures, exponentially distributed.
/// Long enough for about 200 failures, but at most 20 million steps: 10,000 workers take a second or two. The same
/// model gives the same result. Throws InvalidArgument unless all times are finite, not negative, and a step above 0.
Goodput simulate(const FailureModel& model);

/// Returns the seconds of a step in which a worker of the busiest stage takes `factor` times as long to compute.
double slow_step_seconds(const Arrangement& arrangement, const Prediction& prediction, double factor);

}  // namespace trireme::plan
