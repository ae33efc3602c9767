#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::tune {

/// How trials are compared: asynchronous successive halving (Li et al., 2020, "A System for Massively Parallel
/// Hyperparameter Tuning"). All trials train up to the first rung; the best of a rung go on to the next.
struct AshaOptions {
  std::size_t trials = 1;
  std::size_t slots = 1;              ///< trials that train side by side
  double eta = 3;                     ///< of eta trials in a rung, one goes on
  std::vector<double> rungs = {1.0};  ///< shares of a whole training, rising, the last one 1; one rung: all train fully
};

/// A trial up to a rung.
struct RungOfTrial {
  std::size_t trial = 0;
  std::size_t rung = 0;

  auto operator<=>(const RungOfTrial&) const = default;
};

/// What is known: how good each trial was at each rung, higher is better; nullopt = it failed.
using Scores = std::map<RungOfTrial, std::optional<double>>;

/// A trial that trains up to a rung, and why.
struct TrialStep {
  RungOfTrial what = {};
  std::string reason = {};
};

struct AshaDecision {
  std::vector<TrialStep> made = {};  ///< all that was decided so far, in order
  std::vector<TrialStep> now = {};   ///< of those, what has no score yet: to be trained now, at most `slots`
  bool finished = false;             ///< nothing is left to train
};

/// Decides what to train next. Pure: the same scores give the same decision, in whatever order they came in, so a
/// search that is interrupted ends as one that is not. To that end results count in the order in which they would come
/// if every training took the time of its steps; a faster one waits for its turn.
///
/// A trial goes on if it is among the best 1/eta of those that have reached its rung; the highest rung is looked at
/// first. If none can, the next trial begins. If nothing is left and no trial has been trained fully, the best one of
/// the highest rung is. A trial that failed never goes on. Throws InvalidArgument if the options make no sense.
AshaDecision decide_asha(const AshaOptions& options, const Scores& scores);

/// Returns the rungs for so many trials: 1/eta^k, ..., 1/eta, 1, as many as it takes to leave one trial, at most
/// `most`.
std::vector<double> usual_rungs(std::size_t trials, double eta, std::size_t most);

}  // namespace trireme::tune
