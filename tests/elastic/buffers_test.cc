// What becomes of batch-norm statistics.

#include "elastic/buffers.h"

#include <gtest/gtest.h>

#include "tests/dist/ranks.h"
#include "tests/train/alone.h"
#include "train/compute/lane_computer.h"

namespace trireme {
namespace {

struct Normed : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 8));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(8, 2));
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(norm(in(x)))); }
};

Model make_normed() {
  torch::manual_seed(3);
  return std::make_shared<Normed>();
}

Normed& normed(const Model& model) { return dynamic_cast<Normed&>(*model.module); }

TrainOptions options_with(BufferPolicy policy, Step steps) {
  return {.batch = 32,
          .steps = steps,
          .lanes = 4,
          .lr = 0.05,
          .strategy = {.kind = cluster::StrategyChoice::Kind::kAllReduce},
          .buffers = policy,
          .threads = 1};
}

/// The statistics that a lane of the first step leaves when it starts from fresh ones.
torch::Tensor running_mean_of_lane(const data::Dataset& dataset, const TrainOptions& options, Lane lane) {
  const data::Sampler sampler(
      {.samples = dataset.size(), .batch = options.batch, .lanes = options.lanes, .seed = options.seed});
  data::Batch batch;
  dataset.read(sampler.indices(0, lane), batch);
  const Model model = make_normed();
  model.module->train();
  model.forward(torch::from_blob(batch.values<float>(0).data(), {static_cast<std::int64_t>(batch.size()), 2}));
  return normed(model).norm->running_mean.clone();
}

TEST(Buffers, TheAverageIsTheMeanOverLanes) {
  const auto points = make_points(128);
  const TrainOptions options = options_with(BufferPolicy::kAverage, 1);
  torch::Tensor mean = torch::zeros({8});
  for (Lane lane = 0; lane < 4; ++lane) mean += running_mean_of_lane(*points, options, lane) / 4;
  for (const std::uint32_t workers : {1u, 2u, 4u}) {
    const auto trained = train_ranks({workers}, make_normed, options, points);
    for (const Model& model : trained.models) {
      EXPECT_TRUE(torch::allclose(normed(model).norm->running_mean, mean, 1e-6, 1e-7)) << workers;
      EXPECT_EQ(normed(model).norm->num_batches_tracked.item<std::int64_t>(), 1) << "one step, however many lanes";
    }
  }
}

/// Trains with 1, 2 and 4 workers: parameters and buffers are the same bits on all of them.
void expect_same_bits(const std::function<Model()>& make, const TrainOptions& options,
                      const std::shared_ptr<const data::Dataset>& data) {
  const auto alone = train_ranks({1}, make, options, data);
  const auto expected = alone.models[0].module->buffers();
  for (const auto transport : {net::Transport::kAuto, net::Transport::kTcp}) {
    for (const std::uint32_t workers : {2u, 4u}) {
      const auto trained = train_ranks({workers, transport}, make, options, data);
      EXPECT_EQ(trained.result.parameters_sha256, alone.result.parameters_sha256) << workers;
      EXPECT_EQ(trained.result.state_sha256, alone.result.state_sha256) << workers;
      for (const Model& model : trained.models) {
        const auto buffers = model.module->buffers();
        for (std::size_t i = 0; i < buffers.size(); ++i) EXPECT_TRUE(torch::equal(buffers[i], expected[i])) << i;
      }
    }
  }
  TrainOptions by_servers = options;
  by_servers.strategy.kind = cluster::StrategyChoice::Kind::kParameterServer;
  for (const std::uint32_t workers : {1u, 2u, 4u}) {
    const auto trained = train_ranks({.workers = workers, .servers = 2}, make, by_servers, data);
    EXPECT_EQ(trained.result.state_sha256, alone.result.state_sha256) << workers << " workers and two servers";
  }
}

TEST(Buffers, OnServersTheyAreSharedInEveryMode) {
  for (const std::string mode : {"asp", "ssp:2"}) {
    TrainOptions options = options_with(BufferPolicy::kAverage, 10);
    options.strategy.kind = cluster::StrategyChoice::Kind::kParameterServer;
    options.consistency = ps::parse_consistency(mode);
    const auto trained = train_ranks({.workers = 2, .servers = 1}, make_normed, options, make_points(128));
    std::int64_t most = 0;  // lanes that a worker has seen: its own, and others' as far as it has read them
    for (const Model& model : trained.models) {
      const auto seen = normed(model).norm->num_batches_tracked.item<std::int64_t>();
      EXPECT_LE(seen, 40) << mode;
      most = std::max(most, seen);
    }
    EXPECT_GE(most, 1) << mode;  // who writes last wins, so a fast worker may be set back to what a slow one has seen
  }
}

TEST(Buffers, CompressedGradientsLeaveThemWhole) {
  TrainOptions options = options_with(BufferPolicy::kAverage, 9);
  options.codec = codec::parse_spec("topk:0.01");
  options.strategy.kind = cluster::StrategyChoice::Kind::kParameterServer;
  const auto trained = train_ranks({.workers = 2, .servers = 1}, make_normed, options, make_points(128));
  EXPECT_EQ(normed(trained.models[0]).norm->num_batches_tracked.item<std::int64_t>(), 9);
  EXPECT_EQ(hash_state(*trained.models[0].module), hash_state(*trained.models[1].module));
}

TEST(Buffers, TheAverageHasTheSameBitsForAnyNumberOfWorkers) {
  expect_same_bits(make_normed, options_with(BufferPolicy::kAverage, 9), make_points(104));
}

/// A statistic of its own that does not mind lanes of one sample, and a count.
struct Watching : torch::nn::Module {
  torch::nn::Linear out = register_module("out", torch::nn::Linear(2, 2));
  torch::Tensor mean = register_buffer("mean", torch::zeros({2}));
  torch::Tensor seen = register_buffer("seen", torch::zeros({}, torch::kInt64));
  torch::Tensor forward(const torch::Tensor& x) {
    torch::NoGradGuard no_grad;
    mean.mul_(0.9).add_(x.mean(0), 0.1);
    seen.add_(x.size(0));
    const torch::AutoGradMode with_grad(true);
    return out(x - mean.clone());
  }
};

TEST(Buffers, LanesWithoutSamplesLeaveThemAsTheyWere) {
  const auto make = [] {
    torch::manual_seed(3);
    return Model(std::make_shared<Watching>());
  };
  expect_same_bits(make, options_with(BufferPolicy::kAverage, 9), make_points(98));  // 2 samples are left for 4 lanes
}

TEST(Buffers, BroadcastGivesAllWorkersTheChiefs) {
  const auto points = make_points(128);
  const auto trained = train_ranks({2}, make_normed, options_with(BufferPolicy::kBroadcast, 5), points);
  EXPECT_TRUE(torch::equal(normed(trained.models[0]).norm->running_mean, normed(trained.models[1]).norm->running_mean));
  EXPECT_EQ(normed(trained.models[1]).norm->num_batches_tracked.item<std::int64_t>(), 10) << "two lanes in five steps";
}

TEST(Buffers, OwnKeepsEachWorkersBuffers) {
  const auto points = make_points(128);
  const auto trained = train_ranks({2}, make_normed, options_with(BufferPolicy::kOwn, 5), points);
  EXPECT_FALSE(
      torch::equal(normed(trained.models[0]).norm->running_mean, normed(trained.models[1]).norm->running_mean));
  EXPECT_EQ(trained.result.parameters_sha256,
            train_ranks({2}, make_normed, options_with(BufferPolicy::kBroadcast, 5), points).result.parameters_sha256)
      << "training itself does not look at them";
}

TEST(Buffers, AreFoundOnceAndByKind) {
  struct Twice : torch::nn::Module {
    torch::nn::BatchNorm1d first = register_module("first", torch::nn::BatchNorm1d(3));
    torch::nn::BatchNorm1d again = register_module("again", first);
    torch::nn::BatchNorm1d without =
        register_module("without", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).track_running_stats(false)));
  };
  const ModelBuffers buffers(Twice{});
  EXPECT_EQ(buffers.means.size(), 2u);
  EXPECT_EQ(buffers.others.size(), 1u);
  EXPECT_EQ(buffers.mean_floats(), 6u);
}

TEST(Buffers, RoundTripThroughFlatMemory) {
  std::vector<torch::Tensor> tensors{torch::arange(6).to(torch::kFloat32).view({2, 3}).t(), torch::full({2}, 7.0f)};
  std::vector<float> flat(8);
  pack(tensors, flat);
  EXPECT_EQ(flat, (std::vector<float>{0, 3, 1, 4, 2, 5, 7, 7}));
  const std::vector<torch::Tensor> back{torch::zeros({3, 2}), torch::zeros({2})};
  unpack(flat, back);
  EXPECT_TRUE(torch::equal(back[0], tensors[0]));
  EXPECT_TRUE(torch::equal(back[1], tensors[1]));
}

}  // namespace
}  // namespace trireme
