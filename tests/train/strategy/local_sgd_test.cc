#include "train/strategy/local_sgd.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/collective/testing.h"
#include "tests/dist/ranks.h"
#include "tests/support/expect_fails.h"
#include "train/strategy/all_reduce.h"

namespace trireme {
namespace {

using cluster::LocalSgdChoice;
using Outer = LocalSgdChoice::Outer;

constexpr std::size_t kWeights = 3;

/// A model of `kWeights` weights, all `start`, and a bias; the "gradients" are given by hand.
struct Toy : torch::nn::Module {
  explicit Toy(float start, bool with_buffer = false)
      : weight(register_parameter("weight", torch::full({static_cast<std::int64_t>(kWeights)}, start))) {
    if (!with_buffer) return;
    mean = register_buffer("mean", torch::full({2}, start));
    count = register_buffer("count", torch::full({1}, static_cast<std::int64_t>(start)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x * weight; }
  torch::Tensor weight;
  torch::Tensor mean;
  torch::Tensor count;
};

/// One step with a gradient that is `value` everywhere, for one sample.
StepOutcome take_step(Strategy& strategy, float value, double lr = 0.1, bool stop = false, double samples = 1) {
  strategy.begin({.samples = samples, .lr = lr, .stop = stop});
  std::ranges::fill(strategy.gradient(0), value);
  strategy.add(0);
  return strategy.finish();
}

/// Runs `body` for each rank with a strategy that is attached to a toy of its own, all weights at rank + 1 before.
void run_toys(std::uint32_t ranks, const LocalSgdOptions& options,
              const std::function<void(LocalSgd& strategy, Toy& toy, Rank rank)>& body, bool with_buffer = false) {
  collective::expect_ranks(ranks, {}, [&](collective::Communicator& communicator) {
    const auto toy = std::make_shared<Toy>(static_cast<float>(communicator.rank() + 1), with_buffer);
    LocalSgd strategy(communicator, toy, options);
    strategy.sync_state({});
    body(strategy, *toy, communicator.rank());
    strategy.leave();
  });
}

void expect_weights(const Toy& toy, double value, double tolerance = 1e-6) {
  EXPECT_NEAR(toy.weight[0].item<double>(), value, tolerance);
  EXPECT_NEAR(toy.weight[kWeights - 1].item<double>(), value, tolerance);
}

TEST(LocalSgd, AllBeginWithTheChiefsParameters) {
  run_toys(3, {.choice = {.steps = 4}}, [](LocalSgd&, Toy& toy, Rank) { expect_weights(toy, 1); });
}

TEST(LocalSgd, TakesLocalStepsAndThenTheMean) {
  run_toys(2, {.choice = {.steps = 3}}, [](LocalSgd& strategy, Toy& toy, Rank rank) {
    const float gradient = rank == 0 ? 1 : 3;
    for (int step = 1; step <= 2; ++step) {
      take_step(strategy, gradient);
      expect_weights(toy, 1 - 0.1 * gradient * step);
    }
    take_step(strategy, gradient);
    expect_weights(toy, 1 - 0.1 * 2 * 3);
  });
}

TEST(LocalSgd, SynchronisingEveryStepIsPlainAveraging) {
  std::vector<std::vector<float>> results(4);
  const auto train = [&](const std::function<std::unique_ptr<Strategy>(Job&, const Model&)>& make,
                         std::vector<float>* out) {
    run_ranks({2}, [&](Job& job) {
      const auto toy = std::make_shared<Toy>(1.0f);
      const auto strategy = make(job, toy);
      strategy->sync_state({});
      for (int step = 0; step < 20; ++step) {
        const float shift = job.rank() == 0 ? 0.5f : -1.25f;
        take_step(*strategy, toy->weight[0].item<float>() + shift);  // each rank its own quadratic
      }
      strategy->leave();
      strategy->refresh();
      const auto* values = toy->weight.data_ptr<float>();
      out[job.rank()].assign(values, values + kWeights);
      job.session().membership().leave();
    });
  };
  train(
      [](Job& job, const Model& model) {
        return std::make_unique<LocalSgd>(job.ranks(), model, LocalSgdOptions{.choice = {.steps = 1}});
      },
      &results[0]);
  train(
      [](Job& job, const Model& model) {
        return std::make_unique<AllReduce>(job.session(), model, AllReduceOptions{.lanes = 2});
      },
      &results[2]);
  EXPECT_EQ(results[0], results[1]);
  for (std::size_t k = 0; k < kWeights; ++k) EXPECT_NEAR(results[0][k], results[2][k], 1e-6);
}

TEST(LocalSgd, AnOuterStepOfFullLengthIsTheMeanAndNesterovGoesBeyond) {
  const auto train = [](const LocalSgdChoice& choice, const std::function<double(int meeting)>& expected) {
    run_toys(2, {.choice = choice}, [&](LocalSgd& strategy, Toy& toy, Rank rank) {
      for (int meeting = 1; meeting <= 3; ++meeting) {
        for (Step step = 0; step < choice.steps; ++step) take_step(strategy, rank == 0 ? 1.0f : 3.0f);
        expect_weights(toy, expected(meeting), 1e-5);
      }
    });
  };
  // Between two meetings the mean moves by 2 steps * 0.1 * 2.
  train({.steps = 2, .outer = Outer::kSgd, .outer_lr = 1}, [](int meeting) { return 1 - 0.4 * meeting; });
  train({.steps = 2, .outer = Outer::kSgd, .outer_lr = 0.5}, [](int meeting) { return 1 - 0.2 * meeting; });
  const auto nesterov = [](int meetings) {
    double weight = 1;
    double velocity = 0;
    for (int meeting = 0; meeting < meetings; ++meeting) {
      velocity = 0.9 * velocity + 0.4;
      weight -= 0.7 * (0.4 + 0.9 * velocity);
    }
    return weight;
  };
  train({.steps = 2, .outer = Outer::kNesterov}, nesterov);
  const auto momentum = [](int meetings) {
    double weight = 1;
    double velocity = 0;
    for (int meeting = 0; meeting < meetings; ++meeting) weight -= 0.7 * (velocity = 0.9 * velocity + 0.4);
    return weight;
  };
  train({.steps = 2, .outer = Outer::kMomentum}, momentum);
}

TEST(LocalSgd, ElasticWorkersAreDrawnToACentreAndEndThere) {
  std::vector<double> ends(2);
  run_toys(2, {.choice = {.steps = 2, .elastic = 0.5}}, [&](LocalSgd& strategy, Toy& toy, Rank rank) {
    double own[2] = {1, 1};
    double centre = 1;
    const auto sync_state = [&] {
      const double mean = (own[0] + own[1]) / 2;
      for (double& each : own) each -= 0.25 * (each - centre);
      centre += 0.5 * (mean - centre);
    };
    for (int meeting = 0; meeting < 4; ++meeting) {
      for (int step = 0; step < 2; ++step) take_step(strategy, rank == 0 ? 1.0f : 3.0f);
      own[0] -= 0.2;
      own[1] -= 0.6;
      sync_state();
      expect_weights(toy, own[rank], 1e-5);
    }
    strategy.refresh();
    expect_weights(toy, centre, 1e-5);
    strategy.refresh();  // a second look
    take_step(strategy, 0);
    expect_weights(toy, own[rank], 1e-5);  // goes on from its own
    take_step(strategy, 0);
    sync_state();
    ends[rank] = centre;
    strategy.leave();
    expect_weights(toy, centre, 1e-5);
  });
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(LocalSgd, EvaluationUsesTheCommonParameters) {
  run_toys(2, {.choice = {.steps = 2}}, [](LocalSgd& strategy, Toy& toy, Rank rank) {
    const float gradient = rank == 0 ? 1 : 3;
    for (int step = 0; step < 3; ++step) take_step(strategy, gradient);
    const double own = 1 - 0.4 - 0.1 * gradient;
    expect_weights(toy, own);
    if (rank == 0) {
      strategy.refresh();
      expect_weights(toy, 1 - 0.4);
    }
    take_step(strategy, gradient);
    expect_weights(toy, 1 - 0.8);
  });
}

TEST(LocalSgd, WorkersStopTogetherAtASynchronisation) {
  run_toys(3, {.choice = {.steps = 4}}, [](LocalSgd& strategy, Toy&, Rank rank) {
    std::vector<Step> stopped;
    for (Step step = 1; step <= 8; ++step) {
      const StepOutcome done = take_step(strategy, 1, 0.1, /*stop=*/rank == 1 && step == 2);
      EXPECT_EQ(done.newest, step);
      if (done.stop) stopped.push_back(step);
    }
    EXPECT_EQ(stopped, (std::vector<Step>{4, 8}));
  });
}

TEST(LocalSgd, StepsAfterTheLastFullRoundAreAveraged) {
  std::vector<torch::Tensor> weights(2);
  run_toys(2, {.choice = {.steps = 16}}, [&](LocalSgd& strategy, Toy& toy, Rank rank) {
    for (int step = 0; step < 5; ++step) take_step(strategy, rank == 0 ? 1.0f : 3.0f);
    weights[rank] = toy.weight;
  });
  for (const torch::Tensor& weight : weights) EXPECT_NEAR(weight[0].item<double>(), 1 - 5 * 0.2, 1e-6);
}

TEST(LocalSgd, AStepWithoutSamplesChangesNothing) {
  run_toys(2, {.choice = {.steps = 2}}, [](LocalSgd& strategy, Toy& toy, Rank rank) {
    take_step(strategy, 1, 0.1, false, /*samples=*/rank);
    expect_weights(toy, rank == 0 ? 1 : 0.9);
    take_step(strategy, 2, 0.1, false, /*samples=*/2);
    expect_weights(toy, 0.85);  // the mean of 0.9 and 0.8
  });
}

TEST(LocalSgd, BuffersFollowTheirPolicy) {
  for (const auto policy : {BufferPolicy::kAverage, BufferPolicy::kBroadcast, BufferPolicy::kOwn}) {
    run_toys(
        2, {.choice = {.steps = 1}, .buffers = policy},
        [policy](LocalSgd& strategy, Toy& toy, Rank rank) {
          {
            torch::NoGradGuard no_grad;
            toy.mean.fill_(rank == 0 ? 2.0 : 6.0);
            toy.count.fill_(rank == 0 ? 20 : 60);
          }
          take_step(strategy, 1);
          const double own = rank == 0 ? 2 : 6;
          EXPECT_EQ(toy.mean[1].item<double>(), policy == BufferPolicy::kAverage     ? 4
                                                : policy == BufferPolicy::kBroadcast ? 2
                                                                                     : own);
          EXPECT_EQ(toy.count[0].item<std::int64_t>(), policy == BufferPolicy::kOwn ? 10 * own : 20);
        },
        /*with_buffer=*/true);
  }
}

TEST(LocalSgd, TrafficIsDividedByTheNumberOfLocalSteps) {
  std::vector<std::uint64_t> moved(3);
  std::vector<std::uint64_t> every_step(3);
  const std::vector<Step> between{1, 4, 16};
  for (std::size_t i = 0; i < between.size(); ++i) {
    collective::expect_ranks(2, {}, [&](collective::Communicator& ranks) {
      const auto net = std::make_shared<torch::nn::LinearImpl>(100, 100);
      LocalSgd strategy(ranks, net, {.choice = {.steps = between[i]}});
      strategy.sync_state({});
      for (int step = 0; step < 160; ++step) {
        strategy.begin({.samples = 1, .lr = 0.1});
        strategy.finish();
      }
      strategy.leave();
      if (ranks.rank() != 0) return;
      moved[i] = strategy.communication()->wire_bytes;
      every_step[i] = strategy.communication()->plain_bytes;
    });
  }
  for (std::size_t i = 0; i < between.size(); ++i) {
    const double saved = static_cast<double>(moved[0]) / static_cast<double>(moved[i]);
    EXPECT_NEAR(saved, static_cast<double>(between[i]), 0.15 * static_cast<double>(between[i]));
    EXPECT_NEAR(static_cast<double>(every_step[i]) / static_cast<double>(moved[0]), 1, 0.05) << "it knows";
  }
}

}  // namespace
}  // namespace trireme
