#include "optim/pruning.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "optim/update_rule.h"
#include "tests/support/expect_fails.h"

namespace trireme::optim {
namespace {

TEST(Pruning, TextGivesOptionsAndBack) {
  EXPECT_EQ(parse_pruning("0.9"), (PruneOptions{.sparsity = 0.9}));
  const PruneOptions all{.sparsity = 0.5, .from = 10, .to = 200, .every = 5};
  EXPECT_EQ(parse_pruning("0.5,from=10,to=200,every=5"), all);
  EXPECT_EQ(parse_pruning(to_string(all)), all);
  EXPECT_FAILS(parse_pruning(""), InvalidArgument, "0.9,from=100");
  EXPECT_FAILS(parse_pruning("1"), InvalidArgument, "below 1");
  EXPECT_FAILS(parse_pruning("nan"), InvalidArgument, "below 1");
  EXPECT_FAILS(parse_pruning("0.9,till=5"), InvalidArgument, "'till=5'");
  EXPECT_FAILS(parse_pruning("0.9,to=x"), InvalidArgument, "'x' is no number");
  EXPECT_FAILS(parse_pruning("0.9,from=9,to=9"), InvalidArgument, "'to' is after 'from'");
  EXPECT_FAILS(parse_pruning("0.9,every=0"), InvalidArgument, "at least 1");
}

TEST(Pruning, SparsityRisesFastAndThenSlowlyToItsEnd) {
  const PruneOptions options{.sparsity = 0.8, .from = 10, .to = 110, .every = 25};
  EXPECT_EQ(sparsity_at(options, 9), std::nullopt);
  EXPECT_EQ(sparsity_at(options, 10), 0);
  EXPECT_EQ(sparsity_at(options, 11), std::nullopt);
  EXPECT_NEAR(*sparsity_at(options, 35), 0.8 * (1 - 0.75 * 0.75 * 0.75), 1e-12);
  EXPECT_EQ(sparsity_at(options, 110), 0.8);
  EXPECT_EQ(sparsity_at(options, 111), std::nullopt);
  EXPECT_EQ(sparsity_at({.sparsity = 0.8, .from = 0, .to = 7, .every = 5}, 7), 0.8) << "also where it is no multiple";
}

TEST(Pruning, ThresholdIsTheMagnitudeOfThatRank) {
  const std::vector<float> values{-5, 1, 4, -2, 3, 0};
  EXPECT_EQ(prune_threshold(values, 0.5), 3);  // 0, 1 and 2 are below it
  EXPECT_EQ(prune_threshold(values, 0.1), 0);
  EXPECT_EQ(prune_threshold(values, 0.99), 5);
  EXPECT_EQ(prune_threshold(std::vector<float>{1, NAN, 2}, 0.5), 2) << "NaN is kept";
}

/// One parameter array with its state.
struct Trained {
  UpdateConfig config;
  std::vector<float> parameters;
  std::vector<float> state = std::vector<float>(state_floats(config) * parameters.size());

  void step(UpdateInput input, const std::vector<float>& gradient) {
    apply_update(config, input, parameters, state_at(config, state, parameters.size()), gradient);
  }
};

TEST(UpdateRule, WhatIsPrunedStaysZero) {
  Trained trained{{.rule = Rule::kMomentum, .prunes = true}, {1, -2, 3, -4}};
  trained.step({.step = 1, .lr = 0.1, .prune_below = 2.5}, {1, 1, 1, 1});
  EXPECT_EQ(trained.parameters[0], 0);
  EXPECT_EQ(trained.parameters[1], 0);
  EXPECT_FLOAT_EQ(trained.parameters[2], 2.9f);
  trained.step({.step = 2, .lr = 0.1}, {-9, -9, -9, -9});
  EXPECT_EQ(trained.parameters[0], 0);
  EXPECT_NE(trained.parameters[3], 0);
  EXPECT_EQ(std::vector<float>(trained.state.end() - 4, trained.state.end()), (std::vector<float>{1, 1, 0, 0}));
}

TEST(UpdateRule, MovingAverageBeginsWithTheFirstStep) {
  Trained trained{{.rule = Rule::kAdam, .ema = 0.75}, {8}};
  const auto average = [&] { return trained.state[*average_array(trained.config)]; };
  trained.step({.step = 1, .lr = 0.5}, {1});
  EXPECT_EQ(average(), trained.parameters[0]);
  const float before = average();
  trained.step({.step = 2, .lr = 0.5}, {1});
  EXPECT_EQ(average(), before * 0.75f + 0.25f * trained.parameters[0]);
}

TEST(UpdateRule, AveragingAndPruningChangeNoBitOfTheRule) {
  std::vector<float> start(10000);
  std::vector<float> gradient(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) {
    start[i] = std::sin(static_cast<float>(i));
    gradient[i] = std::cos(static_cast<float>(3 * i));
  }
  for (const Rule rule : {Rule::kSgd, Rule::kNesterov, Rule::kAdamW, Rule::kFtrl}) {
    Trained plain{{.rule = rule}, start};
    Trained both{{.rule = rule, .ema = 0.9, .prunes = true}, start};
    for (Step step = 1; step <= 3; ++step) {
      plain.step({.step = step, .lr = 0.1}, gradient);
      both.step({.step = step, .lr = 0.1}, gradient);
    }
    EXPECT_EQ(both.parameters, plain.parameters) << to_string(rule);
  }
}

TEST(UpdateRule, StatesHaveNamesInCheckpoints) {
  EXPECT_EQ(state_names({.rule = Rule::kAdam, .ema = 0.9, .prunes = true}),
            (std::vector<std::string>{"0", "1", "ema", "pruned"}));
  EXPECT_EQ(state_names({.rule = Rule::kSgd, .prunes = true}), (std::vector<std::string>{"pruned"}));
  EXPECT_EQ(average_array({.rule = Rule::kSgd, .ema = 0.5}), 0u);
  EXPECT_EQ(average_array({.rule = Rule::kAdam}), std::nullopt);
}

}  // namespace
}  // namespace trireme::optim
