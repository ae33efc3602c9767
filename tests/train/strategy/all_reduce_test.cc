// Training by all-reduce among ranks that are threads of this process.

#include "train/strategy/all_reduce.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/dist/ranks.h"
#include "tests/support/expect_fails.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

using StrategyKind = cluster::StrategyChoice::Kind;

TrainOptions by_all_reduce() {
  return {
      .batch = 20, .epochs = 3, .lanes = 4, .lr = 0.01, .strategy = {.kind = StrategyKind::kAllReduce}, .threads = 1};
}

/// Three layers, so that there is something to sum.
Model make_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(2, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                               torch::nn::Tanh(), torch::nn::Linear(16, 2));
}

/// What a server in bsp makes of it: the reference.
std::string hash_with_server(TrainOptions options, const data::DatasetPtr& points) {
  options.strategy = {};
  AloneJob job;
  return Trainer(*job, make_net(), options).fit(points).parameters_sha256;
}

TEST(AllReduce, GivesTheBitsOfAServerForAnyNumberOfWorkers) {
  const auto points = make_points(110);  // five full batches and one of 10
  const std::string expected = hash_with_server(by_all_reduce(), points);
  for (const auto transport : {net::Transport::kAuto, net::Transport::kTcp}) {
    for (const std::uint32_t workers : {1u, 2u, 3u, 4u}) {
      const auto trained = train_ranks({workers, transport}, make_net, by_all_reduce(), points);
      EXPECT_EQ(trained.result.parameters_sha256, expected) << workers << " over " << net::to_string(transport);
      EXPECT_EQ(trained.result.steps, 18u);
      EXPECT_EQ(trained.result.strategy, "allreduce");
      for (const Model& model : trained.models) EXPECT_EQ(hash_parameters(*model.module), expected);
    }
  }
}

TEST(AllReduce, GivesTheBitsOfAServerWithEveryRule) {
  const auto points = make_points(60);
  for (const auto rule : {optim::Rule::kSgd, optim::Rule::kMomentum, optim::Rule::kNesterov, optim::Rule::kAdagrad,
                          optim::Rule::kRmsProp, optim::Rule::kAdamW, optim::Rule::kFtrl}) {
    TrainOptions options = by_all_reduce();
    options.optimizer = {.rule = rule, .l2 = 0.01, .clip_value = 0.5};
    EXPECT_EQ(train_ranks({2}, make_net, options, points).result.parameters_sha256, hash_with_server(options, points))
        << optim::to_string(rule);
  }
}

TEST(AllReduce, UnevenLastBatchesCountBySamples) {
  // 22 samples in batches of 20: the last step has 2 samples for 4 lanes, so that two workers of four have none.
  const auto points = make_points(22);
  const std::string expected = hash_with_server(by_all_reduce(), points);
  for (const std::uint32_t workers : {2u, 4u}) {
    EXPECT_EQ(train_ranks({workers}, make_net, by_all_reduce(), points).result.parameters_sha256, expected) << workers;
  }
}

TEST(AllReduce, NumberOfBucketsDoesNotChangeTheBits) {
  const auto hash = [&](std::size_t bucket_bytes) {
    const std::vector<Model> models{make_linear(), make_linear()};  // here: threads share the random generator
    run_ranks({2}, [&](Job& job) {
      const Model& model = models[job.rank()];
      AllReduce strategy(
          job.session(), model,
          {.updates = {.config = {.rule = optim::Rule::kSgd}}, .lanes = 2, .bucket_bytes = bucket_bytes});
      strategy.sync_state({});
      for (Step step = 0; step < 3; ++step) {
        strategy.begin({.step = step, .lanes = {job.rank(), 1}, .samples = 1.0 + job.rank(), .lr = 0.1});
        for (std::size_t i = 0; i < 2; ++i) {
          // Ranks fill their buckets in different orders.
          const std::size_t parameter = job.rank() == 0 ? i : 1 - i;
          for (float& value : strategy.gradient(parameter)) value = static_cast<float>(step + parameter + job.rank());
          strategy.add(parameter);
        }
        const StepOutcome done = strategy.finish();
        EXPECT_EQ(done.newest, step + 1);
        EXPECT_FALSE(done.stop);
      }
      strategy.leave();
      job.session().membership().leave();
    });
    return hash_parameters(*models[0].module);
  };
  EXPECT_EQ(hash(1), hash(1 << 20));
}

TEST(AllReduce, AllWorkersStartFromTheChiefsModel) {
  run_ranks({3}, [&](Job& job) {
    torch::nn::BatchNorm1d norm(4);
    torch::nn::Linear frozen(4, 4);
    {
      torch::NoGradGuard no_grad;
      for (torch::Tensor& tensor : norm->parameters()) tensor.fill_(1.0 + job.rank());
      for (torch::Tensor& tensor : norm->buffers()) tensor.fill_(2.0 + job.rank());
      for (torch::Tensor& tensor : frozen->parameters()) tensor.fill_(3.0 + job.rank()).set_requires_grad(false);
    }
    const Model model = torch::nn::Sequential(norm, frozen);
    AllReduce strategy(job.session(), model, {.lanes = 3});
    strategy.sync_state({});
    for (const torch::Tensor& tensor : norm->parameters()) EXPECT_EQ(tensor.mean().item<float>(), 1);
    for (const torch::Tensor& tensor : norm->buffers()) EXPECT_EQ(tensor.to(torch::kFloat32).mean().item<float>(), 2);
    for (const torch::Tensor& tensor : frozen->parameters()) EXPECT_EQ(tensor.mean().item<float>(), 3);
    strategy.leave();
    job.session().membership().leave();
  });
}

/// A parameter that takes part in a step only if the samples ask for it, and one that never does.
struct Moody : torch::nn::Module {
  torch::nn::Linear always = register_module("always", torch::nn::Linear(2, 2));
  torch::nn::Linear sometimes = register_module("sometimes", torch::nn::Linear(2, 2));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(2, 2));
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = always(x);
    return x[0][0].item<float>() > 0 ? sometimes(y) : y;
  }
};

TEST(AllReduce, HandlesUnusedParameters) {
  const auto make = [] {
    torch::manual_seed(5);
    return Model(std::make_shared<Moody>());
  };
  const auto points = make_points(100);
  const std::string alone = train_ranks({1}, make, by_all_reduce(), points).result.parameters_sha256;
  const torch::Tensor untouched = dynamic_cast<Moody&>(*make().module).never->weight.detach().clone();
  for (const std::uint32_t workers : {2u, 4u}) {
    const auto trained = train_ranks({workers}, make, by_all_reduce(), points);
    EXPECT_EQ(trained.result.parameters_sha256, alone) << workers;
    const auto& moody = dynamic_cast<const Moody&>(*trained.models[0].module);
    EXPECT_TRUE(torch::equal(moody.never->weight, untouched));
    EXPECT_FALSE(torch::equal(moody.sometimes->weight, dynamic_cast<Moody&>(*make().module).sometimes->weight));
  }
}

TEST(AllReduce, StopRequestOfOneStopsAllAfterTheSameStep) {
  for (const Rank asks : {0u, 1u}) {
    run_ranks({2}, [&](Job& job) {
      AllReduce strategy(job.session(), make_linear(), {.lanes = 2});
      strategy.sync_state({});
      for (Step step = 0; step < 4; ++step) {
        strategy.begin({.step = step, .samples = 1, .lr = 0.1, .stop = job.rank() == asks && step == 2});
        for (std::size_t i = 2; i-- > 0;) strategy.add(i);
        EXPECT_EQ(strategy.finish().stop, step == 2);
      }
      strategy.leave();
      job.session().membership().leave();
    });
  }
}

TEST(AllReduce, StepWithoutSamplesChangesNothing) {
  run_ranks({2}, [&](Job& job) {
    const Model model = make_linear();
    AllReduce strategy(job.session(), model, {.updates = {.config = {.rule = optim::Rule::kAdam}}, .lanes = 2});
    strategy.sync_state({});
    const std::string before = hash_parameters(*model.module);
    strategy.begin({.step = 0, .samples = 0, .lr = 0.1});
    for (std::size_t i = 2; i-- > 0;) strategy.add(i);
    EXPECT_EQ(strategy.finish().newest, 1u);
    EXPECT_EQ(hash_parameters(*model.module), before);
    strategy.leave();
    job.session().membership().leave();
  });
}

TEST(AllReduce, CountsWhatItMoves) {
  const auto points = make_points(100);
  EXPECT_EQ(train_ranks({1}, make_net, by_all_reduce(), points).result.communication->wire_bytes, 0u);
  for (const auto transport : {net::Transport::kAuto, net::Transport::kTcp}) {
    const auto bytes = train_ranks({2, transport}, make_net, by_all_reduce(), points).result.communication->wire_bytes;
    // 354 parameters: a rank of two has to send or read half of them, and to get the other half.
    EXPECT_GE(bytes, 15u * 354 * 4 / 2);
    EXPECT_LE(bytes, 20u * 354 * 4 * 4);
  }
}

/// Trains with two workers, of which the second throws `mistake` in its seventh step. What each said at its end.
template <typename Mistake>
std::vector<std::string> with_a_mistake(const TrainOptions& options, const Mistake& mistake, TrainResult& result) {
  std::vector<std::string> said(2);
  std::vector<Model> models{make_net(), make_net()};
  run_ranks({2}, [&](Job& job) {
    TrainOptions mine = options;
    int calls = 0;
    if (job.slot() == 1) {
      mine.task = task_with([&](const torch::Tensor& output, const torch::Tensor& target) {
        if (++calls == 7) throw mistake;
        return torch::nn::functional::cross_entropy(output, target);
      });
    }
    try {
      const TrainResult own = Trainer(job, models[job.slot()], mine).fit(make_points(100));
      if (job.slot() == 0) result = own;
    } catch (const std::exception& problem) {
      said[job.slot()] = problem.what();
    }
  });
  return said;
}

TEST(AllReduce, OthersContinueWithoutAFailedWorker) {
  TrainOptions options = by_all_reduce();
  options.lanes = 2;
  options.steps = 60;
  TrainResult result;
  const auto said = with_a_mistake(options, std::runtime_error("my own mistake"), result);
  EXPECT_EQ(said[1], "my own mistake");
  EXPECT_EQ(said[0], "");
  EXPECT_EQ(result.steps, 60u);
  EXPECT_EQ(result.parameters_sha256, train_ranks({1}, make_net, options, make_points(100)).result.parameters_sha256);
}

TEST(AllReduce, InvalidArgumentOfOneEndsTheOthersWithItsReason) {
  TrainOptions options = by_all_reduce();
  options.lanes = 2;
  options.steps = 1'000'000;
  TrainResult result;
  const auto said = with_a_mistake(options, InvalidArgument("the data makes no sense"), result);
  EXPECT_EQ(said[1], "the data makes no sense");
  EXPECT_THAT(said[0], ::testing::HasSubstr("worker 1 failed: the data makes no sense"));
}

TEST(AllReduce, AStepThatIsGivenUpLeavesNothingBehind) {
  run_ranks({2}, [&](Job& job) {
    const auto given_up = [&] {
      AllReduce strategy(job.session(), make_linear(), {.lanes = 2, .bucket_bytes = 1});
      strategy.sync_state({});
      strategy.begin({.step = 0, .samples = 1, .lr = 0.1});
      strategy.add(1);
      if (job.rank() == 0) throw std::runtime_error("given up");
      strategy.add(0);
      strategy.finish();
    };
    if (job.rank() == 0) {
      EXPECT_FAILS(given_up(), std::runtime_error, "given up");
      job.session().membership().leave();
    } else {
      EXPECT_THROW(given_up(), PeerLost);
      job.session().membership().leave();
    }
  });
}

TEST(MakeStrategy, NamesWhatTheJobLacks) {
  run_ranks({1}, [&](Job& job) {
    EXPECT_FAILS(Trainer(job, make_linear(), {}).fit(make_points(100)), InvalidArgument, "strategy ps", "--servers 1");
  });
}

TEST(MakeStrategy, CentralIsBspOnOneServer) {
  const auto points = make_points(60);
  TrainOptions options = by_all_reduce();
  options.strategy = {.kind = StrategyKind::kCentral};
  AloneJob job;
  const TrainResult result = Trainer(*job, make_net(), options).fit(points);
  EXPECT_EQ(result.strategy, "central");
  EXPECT_EQ(result.parameters_sha256, hash_with_server(options, points));
}

TEST(MakeStrategy, ConsistencyBelongsToServers) {
  AloneJob job;
  TrainOptions options = by_all_reduce();
  options.consistency = {.mode = ps::Consistency::Mode::kAsp};
  EXPECT_FAILS(Trainer(*job, make_linear(), options), InvalidArgument, "consistency asp", "strategy ps");
}

TEST(AllReduce, WorksInASingleProcess) {
  AloneJob job;
  const TrainResult result =
      Trainer(*job, make_linear(),
              {.batch = 20, .epochs = 3, .lr = 0.1, .strategy = {.kind = StrategyKind::kAllReduce}})
          .fit(make_points(110), make_points(40, 2));
  EXPECT_GT(result.test->metric("accuracy"), 0.95);
  EXPECT_EQ(result.steps, 18u);
}

}  // namespace
}  // namespace trireme
