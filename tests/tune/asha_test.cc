#include "tune/asha.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/random.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::tune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto is(std::size_t trial, std::size_t rung) { return Field(&TrialStep::what, RungOfTrial{trial, rung}); }

/// How good a trial is in the end, and at any rung: trial 5 is the best of nine.
double quality(RungOfTrial what) {
  return 10 - std::abs(static_cast<double>(what.trial) - 5.2) + static_cast<double>(what.rung);
}

/// Trains all, giving the results in an order that `seed` decides; returns the scores at the end.
Scores play(const AshaOptions& options, std::uint64_t seed) {
  RandomStream random(seed);
  Scores scores;
  for (;;) {
    const AshaDecision decision = decide_asha(options, scores);
    if (decision.finished) return scores;
    EXPECT_LE(decision.now.size(), options.slots);
    if (decision.now.empty()) {
      ADD_FAILURE() << "nothing to do, and not finished";
      return scores;
    }
    const RungOfTrial what = decision.now[random.below(decision.now.size())].what;
    scores[what] = quality(what);
  }
}

const AshaOptions kNine{.trials = 9, .slots = 2, .eta = 3, .rungs = {1.0 / 9, 1.0 / 3, 1.0}};

TEST(Asha, BeginsAsManyTrialsAsThereAreSlots) {
  const AshaDecision decision = decide_asha(kNine, {});
  EXPECT_FALSE(decision.finished);
  EXPECT_THAT(decision.now, ElementsAre(is(0, 0), is(1, 0)));
  EXPECT_THAT(decision.now[0].reason, HasSubstr("1 of 9 trials"));
}

TEST(Asha, BestOfThreeGoesOnBeforeTheNextBegins) {
  const AshaDecision decision = decide_asha(kNine, {{{0, 0}, 0.5}, {{1, 0}, 0.7}, {{2, 0}, 0.6}});
  EXPECT_THAT(decision.made, ElementsAre(is(0, 0), is(1, 0), is(2, 0), is(3, 0), is(1, 1)));
  EXPECT_THAT(decision.now, ElementsAre(is(1, 1), is(3, 0)));
  EXPECT_THAT(decision.now[0].reason, AllOf(HasSubstr("place 1 of 3"), HasSubstr("rung 0")));
}

TEST(Asha, ResultThatComesEarlyWaitsForItsTurn) {
  EXPECT_THAT(decide_asha(kNine, {{{1, 0}, 0.7}}).now, ElementsAre(is(0, 0))) << "trial 0 would end first";
}

TEST(Asha, SameEndInWhateverOrderResultsCome) {
  for (const std::size_t slots : {1, 2, 4, 9}) {
    AshaOptions options = kNine;
    options.slots = slots;
    const Scores first = play(options, 1);
    EXPECT_TRUE(first.contains({5, 2})) << slots;
    for (std::uint64_t seed = 2; seed < 40; ++seed) EXPECT_EQ(play(options, seed), first) << slots << " " << seed;
  }
}

TEST(Asha, MakesLessThanHalfOfAllSteps) {
  for (const std::size_t slots : {1, 2, 9}) {
    AshaOptions options = kNine;
    options.slots = slots;
    double made = 0;
    for (const auto& [what, score] : play(options, 3)) {
      made += options.rungs[what.rung] - (what.rung == 0 ? 0 : options.rungs[what.rung - 1]);
    }
    EXPECT_LT(made, 4.5) << slots;
  }
}

TEST(Asha, TrialThatFailedDoesNotGoOn) {
  const AshaDecision decision =
      decide_asha(kNine, {{{0, 0}, std::nullopt}, {{1, 0}, std::nullopt}, {{2, 0}, std::nullopt}});
  EXPECT_THAT(decision.now, ElementsAre(is(3, 0), is(4, 0)));
}

TEST(Asha, EndsWhereAllFail) {
  Scores scores;
  for (std::size_t trial = 0; trial < 9; ++trial) scores[{trial, 0}] = std::nullopt;
  const AshaDecision decision = decide_asha(kNine, scores);
  EXPECT_TRUE(decision.finished);
  EXPECT_TRUE(decision.now.empty());
}

TEST(Asha, BestOfTooFewIsStillTrainedFully) {
  const AshaOptions two{.trials = 2, .slots = 2, .eta = 3, .rungs = {1.0 / 3, 1.0}};
  const AshaDecision decision = decide_asha(two, {{{0, 0}, 0.1}, {{1, 0}, 0.2}});
  EXPECT_THAT(decision.now, ElementsAre(is(1, 1)));
  EXPECT_THAT(decision.now[0].reason, HasSubstr("none has been trained fully"));
  EXPECT_TRUE(decide_asha(two, {{{0, 0}, 0.1}, {{1, 0}, 0.2}, {{1, 1}, 0.3}}).finished);
}

TEST(Asha, AmongEqualsTheFirstGoesOn) {
  EXPECT_THAT(decide_asha(kNine, {{{0, 0}, 0.5}, {{1, 0}, 0.5}, {{2, 0}, 0.5}}).made.back(), is(0, 1));
}

TEST(Asha, OneRungTrainsAllFully) {
  const AshaOptions options{.trials = 4, .slots = 2};
  const Scores scores = play(options, 1);
  EXPECT_EQ(scores.size(), 4u);
  EXPECT_TRUE(decide_asha(options, scores).finished);
}

TEST(Asha, RungsAreAsManyAsItTakesToLeaveOne) {
  EXPECT_THAT(usual_rungs(27, 3, 4), ElementsAre(1.0 / 27, 1.0 / 9, 1.0 / 3, 1.0));
  EXPECT_THAT(usual_rungs(27, 3, 2), ElementsAre(1.0 / 3, 1.0));
  EXPECT_THAT(usual_rungs(2, 3, 4), ElementsAre(1.0));
}

TEST(Asha, RefusesOptionsWithoutSense) {
  EXPECT_FAILS(decide_asha({.trials = 0}, {}), InvalidArgument, "--trials 0");
  EXPECT_FAILS(decide_asha({.slots = 0}, {}), InvalidArgument, "--parallel 0");
  EXPECT_FAILS(decide_asha({.eta = 1}, {}), InvalidArgument, "--eta 1");
  EXPECT_FAILS(decide_asha({.rungs = {0.5, 0.4, 1}}, {}), InvalidArgument, "rungs rise");
}

}  // namespace
}  // namespace trireme::tune
