// ZeRO among ranks that are threads of this process: the same bits as with all-reduce.

#include "train/sharded/sharded.h"

#include <gtest/gtest.h>

#include "trireme/layers.h"

#include "base/error.h"
#include "tests/collective/testing.h"
#include "tests/dist/ranks.h"
#include "tests/train/alone.h"
#include "train/strategy/all_reduce.h"

namespace trireme {
namespace {

using StrategyKind = cluster::StrategyChoice::Kind;

TrainOptions by_zero(std::uint32_t stage, std::uint32_t shards = 0) {
  return {.batch = 20,
          .epochs = 3,
          .lanes = 4,
          .lr = 0.01,
          .strategy = {.kind = StrategyKind::kZero, .zero = {.stage = stage, .shards = shards}},
          .threads = 1};
}

TrainOptions like(TrainOptions options) {
  options.strategy = {.kind = StrategyKind::kAllReduce};
  return options;
}

Model make_layers() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(2, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                               torch::nn::Tanh(), torch::nn::Linear(16, 2));
}

std::string hash_by_all_reduce(const TrainOptions& options, const data::DatasetPtr& points) {
  return train_ranks({1}, make_layers, like(options), points).result.parameters_sha256;
}

TEST(Sharded, GivesTheBitsOfAllReduceForAnyNumberOfWorkers) {
  const auto points = make_points(110);  // five full batches and one of 10
  const std::string expected = hash_by_all_reduce(by_zero(1), points);
  for (const std::uint32_t stage : {1u, 2u}) {
    for (const auto transport : {net::Transport::kAuto, net::Transport::kTcp}) {
      for (const std::uint32_t workers : {1u, 2u, 3u, 4u}) {
        const auto trained = train_ranks({workers, transport}, make_layers, by_zero(stage), points);
        EXPECT_EQ(trained.result.parameters_sha256, expected) << stage << " on " << workers;
        EXPECT_EQ(trained.result.strategy, fmt::format("zero:{}", stage));
        for (const Model& model : trained.models) EXPECT_EQ(hash_parameters(*model.module), expected);
      }
    }
  }
}

TEST(Sharded, GroupsThatEachHoldAllGiveTheSameBits) {
  const auto points = make_points(110);
  const std::string expected = hash_by_all_reduce(by_zero(1), points);
  for (const std::uint32_t shards : {1u, 2u, 4u}) {
    EXPECT_EQ(train_ranks({4}, make_layers, by_zero(2, shards), points).result.parameters_sha256, expected) << shards;
  }
}

TEST(Sharded, ClippingAveragesAndPruningGiveTheSameBits) {
  const auto points = make_points(60);
  TrainOptions options = by_zero(2);
  options.clip_norm = 0.1;
  options.optimizer = {.rule = optim::Rule::kAdamW, .l2 = 0.01, .ema = 0.9};
  options.prune = {.sparsity = 0.5, .every = 2};
  const std::string expected = hash_by_all_reduce(options, points);
  for (const std::uint32_t workers : {2u, 4u}) {
    EXPECT_EQ(train_ranks({workers}, make_layers, options, points).result.parameters_sha256, expected) << workers;
  }
}

TEST(Sharded, UnevenLastBatchesCountBySamples) {
  const auto points = make_points(22);  // the last step has 2 samples for 4 lanes
  const std::string expected = hash_by_all_reduce(by_zero(2), points);
  for (const std::uint32_t workers : {2u, 4u}) {
    EXPECT_EQ(train_ranks({workers}, make_layers, by_zero(2), points).result.parameters_sha256, expected) << workers;
  }
}

TEST(Sharded, AStepThatOverflowsIsLeftOutByAll) {
  const auto points = make_points(110);
  TrainOptions options = by_zero(2);
  options.loss_scale = optim::parse_loss_scale("dynamic,init=85070591730234615865843651857942052864,every=4");
  const auto expected = train_ranks({1}, make_layers, like(options), points).result;
  ASSERT_GT(expected.steps_left_out, 0u);
  for (const std::uint32_t workers : {2u, 3u}) {
    const TrainResult result = train_ranks({workers}, make_layers, options, points).result;
    EXPECT_EQ(result.parameters_sha256, expected.parameters_sha256) << workers;
    EXPECT_EQ(result.steps_left_out, expected.steps_left_out) << workers;
    EXPECT_EQ(result.loss_scale, expected.loss_scale) << workers;
  }
}

Model make_divided() {
  torch::manual_seed(3);
  return whole_model(
      layers_of(torch::nn::Sequential(torch::nn::Linear(2, 16), torch::nn::Tanh(), torch::nn::Linear(16, 16),
                                      torch::nn::Tanh(), torch::nn::Linear(16, 2))));
}

TEST(Sharded, DividedParametersGiveTheSameBits) {
  const auto points = make_points(110);
  const auto test = make_points(1300, 2);  // three batches: one more for the first rank than for the others
  for (const bool everything : {false, true}) {
    TrainOptions options = by_zero(3);
    if (everything) {
      options.clip_norm = 0.1;
      options.optimizer = {.rule = optim::Rule::kAdamW, .l2 = 0.01, .ema = 0.9};
    }
    const auto expected = train_ranks({1}, make_divided, like(options), points, test);
    for (const std::uint32_t workers : {1u, 2u, 3u, 4u}) {
      const auto trained = train_ranks({workers}, make_divided, options, points, test);
      EXPECT_EQ(trained.result.parameters_sha256, expected.result.parameters_sha256) << workers;
      EXPECT_EQ(trained.result.test->loss, expected.result.test->loss) << workers;
    }
  }
}

TEST(Sharded, DividedParametersSurviveLanesWithoutSamples) {
  const auto points = make_points(22);
  const std::string expected = train_ranks({1}, make_divided, like(by_zero(3)), points).result.parameters_sha256;
  for (const std::uint32_t workers : {2u, 3u, 4u}) {
    EXPECT_EQ(train_ranks({workers}, make_divided, by_zero(3), points).result.parameters_sha256, expected) << workers;
  }
}

TEST(Sharded, LanesInPartsMakeTheSameNumberOfPasses) {
  // Lanes of three samples, and in the last step of two, of one and of none: fewer than parts.
  const auto points = make_points(20);
  TrainOptions options = by_zero(3);
  options.batch = 9;
  options.lanes = 3;
  options.accumulate = 2;
  const std::string expected = train_ranks({1}, make_divided, like(options), points).result.parameters_sha256;
  for (const std::uint32_t workers : {1u, 2u, 3u}) {  // of two one has a lane more than the other
    EXPECT_EQ(train_ranks({workers}, make_divided, options, points).result.parameters_sha256, expected) << workers;
  }
}

TEST(Sharded, ANetworkThatIsNotMadeOfLayersCannotBeDivided) {
  const auto points = make_points(22);
  EXPECT_THROW(train_ranks({1}, make_layers, by_zero(3), points), InvalidArgument);
}

/// Takes part in some samples only.
struct Choosy : torch::nn::Module {
  torch::nn::Linear always = register_module("always", torch::nn::Linear(2, 2));
  torch::nn::Linear sometimes = register_module("sometimes", torch::nn::Linear(2, 2));
  torch::nn::Linear never = register_module("never", torch::nn::Linear(2, 2));
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor y = always(x);
    return x[0][0].item<float>() > 0 ? sometimes(y) : y;
  }
};

TEST(Sharded, BucketsWaitForGradientsThatComeLate) {
  // Many small buckets, fewer places for them, and gradients of the first bucket that come last.
  const auto hash = [&](std::uint32_t stage, std::size_t bucket_bytes) {
    std::vector<Model> models;
    for (int rank = 0; rank < 2; ++rank) {
      torch::manual_seed(5);
      models.emplace_back(std::make_shared<Choosy>());
    }
    run_ranks({2}, [&](Job& job) {
      TrainOptions options = by_zero(stage);
      options.lanes = 2;
      options.optimizer = {.rule = optim::Rule::kSgd};
      Sharded strategy(job.session(), models[job.rank()], options, nullptr, bucket_bytes);
      strategy.sync_state({});
      for (Step step = 0; step < 3; ++step) {
        strategy.begin({.step = step, .lanes = {job.rank(), 1}, .samples = 1.0 + job.rank(), .lr = 0.1});
        for (std::size_t i = 0; i < 6; ++i) {
          const std::size_t parameter = job.rank() == 0 ? i : 5 - i;
          for (float& value : strategy.gradient(parameter)) value = static_cast<float>(step + parameter + job.rank());
          strategy.add(parameter);
        }
        EXPECT_EQ(strategy.finish().newest, step + 1);
      }
      strategy.leave();
      job.session().membership().leave();
    });
    return hash_parameters(*models[0].module);
  };
  const std::string expected = hash(1, 1 << 20);
  EXPECT_EQ(hash(1, 1), expected);
  EXPECT_EQ(hash(2, 1), expected);
}

TEST(Sharded, AWorkerHoldsItsShareOfTheState) {
  const auto each = [](std::uint64_t bytes, double elements) { return static_cast<double>(bytes) / elements; };
  for (const std::uint32_t ranks : {1u, 2u, 4u, 8u}) {
    for (const std::uint32_t stage : {1u, 2u, 3u}) {
      torch::nn::Sequential model;
      double elements = 0;
      for (int layer = 0; layer < 16; ++layer) model->push_back(torch::nn::Linear(64, 64));
      for (const torch::Tensor& parameter : model->parameters()) elements += static_cast<double>(parameter.numel());
      const ShardedParameters parameters(trainable_parameters(*model),
                                         {.updates = {.config = {.rule = optim::Rule::kAdam}},
                                          .stage = static_cast<ZeroStage>(stage),
                                          .rank = ranks - 1,
                                          .ranks = ranks,
                                          .bucket_bytes = 16 << 10},
                                         nullptr);
      const HeldBytes held = parameters.held();
      const double parameter_share = stage == 3 ? 4.0 / ranks : 4.0;
      const double gradient_share = stage == 1 ? 4.0 : 4.0 / ranks;
      EXPECT_NEAR(each(held.parameters, elements), parameter_share, 0.02 * parameter_share);
      EXPECT_NEAR(each(held.gradients, elements), gradient_share, 0.02 * gradient_share);
      EXPECT_NEAR(each(held.optimizer, elements), 8.0 / ranks, 0.02 * 8 / ranks);
    }
  }
}

TEST(Sharded, ADeathInTheFirstGatherLeavesTheInitialValues) {
  const std::array<Model, 2> models{make_layers(), make_layers()};
  const std::string initial = hash_parameters(*models[0].module);
  const collective::Ranks ranks(2);
  const auto problems = ranks.run([&](Rank rank) {
    collective::Communicator group(*ranks.endpoints[rank], ranks.options(rank, {.deadline = 10s}));
    ShardedParameters parameters(trainable_parameters(*models[rank].module), {.rank = rank, .ranks = 2}, &group);
    if (rank == 1) fail<Error>("dies");
    EXPECT_THROW(parameters.take_over(&group), PeerLost);
  });
  EXPECT_EQ(problems[0], "");
  EXPECT_EQ(hash_parameters(*models[0].module), initial);
}

TEST(Sharded, ACheckpointContinuesOnOtherNumbers) {
  const auto points = make_points(110);
  const std::string expected = hash_by_all_reduce(by_zero(2), points);
  TempFolder folder;
  const auto train = [&](std::uint32_t workers, const cluster::StrategyChoice& strategy, Step steps) {
    TrainOptions options = by_zero(2);
    options.strategy = strategy;
    options.steps = steps;
    options.schedule = "constant";
    options.checkpoint = {.every = 5};
    std::vector<Model> models;
    for (std::uint32_t rank = 0; rank < workers; ++rank) models.push_back(make_layers());
    std::string hash;
    run_ranks({.workers = workers, .folder = folder.path()}, [&](Job& job) {
      const TrainResult result = Trainer(job, models[job.rank()], options).fit(points);
      if (job.chief()) hash = result.parameters_sha256;
    });
    return hash;
  };
  const cluster::StrategyChoice zero1{.kind = StrategyKind::kZero, .zero = {.stage = 1}};
  const cluster::StrategyChoice zero2{.kind = StrategyKind::kZero, .zero = {.stage = 2}};
  const cluster::StrategyChoice groups{.kind = StrategyKind::kZero, .zero = {.stage = 2, .shards = 2}};
  const cluster::StrategyChoice all{.kind = StrategyKind::kAllReduce};
  TrainOptions whole = like(by_zero(2));
  whole.steps = 20;
  whole.schedule = "constant";
  const std::string undisturbed = train_ranks({1}, make_layers, whole, points).result.parameters_sha256;
  train(3, zero2, 4);
  train(2, zero1, 8);
  train(4, groups, 12);
  train(2, all, 16);
  EXPECT_EQ(train(4, zero2, 20), undisturbed);
}

}  // namespace
}  // namespace trireme
