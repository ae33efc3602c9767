#include "tune/asha.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/counted.h"
#include "base/error.h"

namespace trireme::tune {
namespace {

void check(const AshaOptions& options) {
  if (options.trials == 0) fail<InvalidArgument>("--trials 0: there is nothing to compare");
  if (options.slots == 0) fail<InvalidArgument>("--parallel 0: at least one trial has to train at a time");
  if (!(options.eta > 1)) fail<InvalidArgument>("--eta {}: it has to be above 1", options.eta);
  const bool rising = std::ranges::is_sorted(options.rungs, std::less_equal<>{});
  if (options.rungs.empty() || !rising || options.rungs.front() <= 0 || options.rungs.back() != 1) {
    fail<InvalidArgument>("rungs rise from above 0 to 1");
  }
}

/// The search so far, played again from its beginning with the scores that are known.
class Replay {
 public:
  Replay(const AshaOptions& options, const Scores& scores)
      : options_(options), scores_(scores), reached_(options.rungs.size()), promoted_(options.rungs.size()) {}

  AshaDecision run() {
    for (;;) {
      fill_slots();
      if (training_.empty()) {
        decision_.finished = true;
        return decision_;
      }
      const auto first = training_.begin();  // whose turn it is to end
      const auto score = scores_.find(first->what);
      if (score == scores_.end()) break;
      now_ = first->ends;
      reached_[first->what.rung].push_back({first->what.trial, score->second});
      training_.erase(first);
    }
    for (const Training& training : training_) {
      if (!scores_.contains(training.what)) decision_.now.push_back(decision_.made[training.order]);
    }
    std::ranges::sort(decision_.now, {}, &TrialStep::what);
    return decision_;
  }

 private:
  struct Training {
    double ends = 0;        // in shares of a whole training
    std::size_t order = 0;  // of its beginning; also its place in `made`
    RungOfTrial what = {};

    bool operator<(const Training& other) const { return std::tie(ends, order) < std::tie(other.ends, other.order); }
  };
  struct Reached {
    std::size_t trial = 0;
    std::optional<double> score = {};
  };

  void fill_slots() {
    while (training_.size() < options_.slots) {
      std::optional<TrialStep> next = promotion();
      if (!next) next = beginning();
      if (!next) next = last_resort();
      if (!next) return;
      const RungOfTrial what = next->what;
      const double before = what.rung == 0 ? 0 : options_.rungs[what.rung - 1];
      training_.insert(
          {.ends = now_ + options_.rungs[what.rung] - before, .order = decision_.made.size(), .what = what});
      decision_.made.push_back(std::move(*next));
    }
  }

  /// Those that did not fail, the best first; among equals the one that began first.
  std::vector<Reached> ranking(std::size_t rung) const {
    std::vector<Reached> ranked;
    std::ranges::copy_if(reached_[rung], std::back_inserter(ranked), [](const Reached& one) { return !!one.score; });
    std::ranges::sort(ranked, [](const Reached& a, const Reached& b) {
      return *a.score != *b.score ? *a.score > *b.score : a.trial < b.trial;
    });
    return ranked;
  }

  TrialStep promote(std::size_t trial, std::size_t rung, std::string reason) {
    promoted_[rung].insert(trial);
    return {.what = {.trial = trial, .rung = rung + 1}, .reason = std::move(reason)};
  }

  std::optional<TrialStep> promotion() {
    for (std::size_t rung = options_.rungs.size() - 1; rung-- > 0;) {
      const std::vector<Reached> ranked = ranking(rung);
      const auto best = static_cast<std::size_t>(static_cast<double>(reached_[rung].size()) / options_.eta);
      for (std::size_t place = 0; place < std::min(best, ranked.size()); ++place) {
        const std::size_t trial = ranked[place].trial;
        if (promoted_[rung].contains(trial)) continue;
        return promote(trial, rung,
                       fmt::format("goes on: place {} of {} at rung {}, of which {} may", place + 1,
                                   reached_[rung].size(), rung, best));
      }
    }
    return std::nullopt;
  }

  std::optional<TrialStep> beginning() {
    if (begun_ == options_.trials) return std::nullopt;
    const std::size_t trial = begun_++;
    return TrialStep{.what = {.trial = trial, .rung = 0},
                     .reason = fmt::format("begins: {} of {}", trial + 1, counted(options_.trials, "trial"))};
  }

  /// So few trials that none is among the best 1/eta of a rung.
  std::optional<TrialStep> last_resort() {
    if (!training_.empty() || !reached_.back().empty()) return std::nullopt;
    for (std::size_t rung = options_.rungs.size() - 1; rung-- > 0;) {
      const std::vector<Reached> ranked = ranking(rung);
      for (const Reached& best : ranked) {
        if (promoted_[rung].contains(best.trial)) continue;
        return promote(best.trial, rung,
                       fmt::format("goes on: the best of {} at rung {}, and none has been trained fully",
                                   reached_[rung].size(), rung));
      }
    }
    return std::nullopt;
  }

  const AshaOptions& options_;
  const Scores& scores_;
  std::vector<std::vector<Reached>> reached_;    // by rung
  std::vector<std::set<std::size_t>> promoted_;  // trials, by the rung they went on from
  std::set<Training> training_;
  std::size_t begun_ = 0;
  double now_ = 0;  // in shares of a whole training
  AshaDecision decision_;
};

}  // namespace

AshaDecision decide_asha(const AshaOptions& options, const Scores& scores) {
  check(options);
  return Replay(options, scores).run();
}

std::vector<double> usual_rungs(std::size_t trials, double eta, std::size_t most) {
  std::vector<double> rungs{1.0};
  double left = static_cast<double>(trials);
  while (rungs.size() < most && left >= eta) {
    rungs.push_back(rungs.back() / eta);
    left /= eta;
  }
  std::ranges::reverse(rungs);
  return rungs;
}

}  // namespace trireme::tune
