// Loops of one's own whose workers are killed, come later, and start again from a checkpoint: they end with the bits of
// an undisturbed run, and have visited every sample once per epoch.

#include "trireme/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/mutex.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/list.h"
#include "tests/dist/elastic_job.h"
#include "tests/support/events.h"
#include "tests/support/expect_fails.h"

namespace trireme::dist {
namespace {

constexpr std::int64_t kSamples = 42;  // the last batch of an epoch has fewer samples than lanes
constexpr data::SamplerConfig kSampler{.samples = kSamples, .batch = 8, .lanes = 4, .seed = 7};
constexpr Step kEpochs = 6;
constexpr Step kSteps = kEpochs * 6;

/// A net with batch-norm statistics, which depend on who computes what unless something is done about it.
struct NormedNet : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(4, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16, 1));
  torch::Tensor forward(const torch::Tensor& x) {  // a lane may be one sample: two values of it are normed together
    return out(torch::tanh(norm(in(x).view({-1, 8, 2})).view({-1, 16})));
  }
};

torch::Tensor rows_of(const torch::Tensor& all, const std::vector<std::uint64_t>& indices) {
  const std::vector<std::int64_t> rows(indices.begin(), indices.end());
  return all.index_select(0, torch::tensor(rows, torch::kInt64));
}

/// Threads share torch's random generator: data is made before they start.
struct LoopSamples {
  torch::Tensor x;
  torch::Tensor y;
  LoopSamples() {
    torch::manual_seed(5);
    x = torch::randn({kSamples, 4});
    y = x.sum(1, true).sin();
  }
};

/// Where in a step a worker may be killed.
enum class Point { kInLane, kBeforeStep, kAfterStep };

/// Called at each point of each step; may throw Killed.
using Disturb = std::function<void(World& world, Step step, Point point)>;

void undisturbed(World& /*world*/, Step /*step*/, Point /*point*/) {}

/// Waits until the view has so many workers, or has to end: steps are short, and would all be made before anybody
/// comes.
void wait_for_workers(World& world, std::uint32_t workers) {
  const JobSession& job = world.job()->session();
  EXPECT_TRUE(
      eventually([&] { return world.size() >= workers || job.regroup_wanted() || !job.view_failure().empty(); }));
}

/// What is left at the end, of the worker that was the chief.
struct LoopResult {
  std::vector<torch::Tensor> tensors;  // of the net
  torch::Tensor visits;                // by sample
  std::string steps;                   // "0 1 2 …"
  std::uint32_t workers = 0;
};

void expect_same(const LoopResult& result, const LoopResult& undisturbed) {
  ASSERT_EQ(result.tensors.size(), undisturbed.tensors.size());
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    EXPECT_TRUE(torch::equal(result.tensors[i], undisturbed.tensors[i])) << "tensor " << i << " differs";
  }
  EXPECT_EQ(result.steps, undisturbed.steps);
  EXPECT_TRUE(torch::equal(result.visits, torch::full({kSamples}, std::int64_t{kEpochs}))) << result.visits;
}

class ElasticLoops : public ::testing::Test {
 protected:
  /// The program of a worker. The net is made anew in each process, with values of its own: those of the others count.
  void train(std::unique_ptr<Job> job, const Disturb& disturb, Step save_every = 0) {
    World world(std::move(job));
    const auto net = make_net();
    torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.01));
    DistributedOptimizer optimizer(world, adam, net->named_parameters());
    State state(world, kSampler);
    torch::Tensor visits = torch::zeros({kSamples}, torch::kInt64);
    std::string steps;
    state.add(*net).add(optimizer).add("visits", visits).add("steps", steps);
    if (save_every > 0) state.save_every(save_every);
    elastic(world, state, [&] {
      while (state.step() < kSteps) {
        torch::Tensor mine = torch::zeros({kSamples}, torch::kInt64);
        for (const LaneBatch& lane : state.lanes()) {
          torch::mse_loss(net->forward(rows_of(samples_.x, lane.indices)), rows_of(samples_.y, lane.indices))
              .backward();
          for (const std::uint64_t index : lane.indices) mine[static_cast<std::int64_t>(index)].add_(1);
          disturb(world, state.step(), Point::kInLane);
        }
        visits += world.all_reduce(mine, {.op = ReduceOp::kSum, .compression = {}, .name = "visits"});
        steps += std::to_string(state.step()) + " ";
        disturb(world, state.step(), Point::kBeforeStep);
        optimizer.step();
        disturb(world, state.step() - 1, Point::kAfterStep);
      }
      if (!world.chief()) return;
      const MutexLock lock(mutex_);
      result_ = {.tensors = {}, .visits = visits.clone(), .steps = steps, .workers = world.size()};
      for (const torch::Tensor& tensor : net->parameters()) result_.tensors.push_back(tensor.detach().clone());
      for (const torch::Tensor& tensor : net->buffers()) result_.tensors.push_back(tensor.detach().clone());
    });
    world.finish();
  }

  std::shared_ptr<NormedNet> make_net() {
    const MutexLock lock(mutex_);
    auto net = std::make_shared<NormedNet>();
    if (std::exchange(first_, false)) {
      torch::NoGradGuard no_grad;
      initial_.clear();
      for (const torch::Tensor& tensor : net->parameters()) initial_.push_back(tensor.detach().clone());
    }
    torch::NoGradGuard no_grad;
    std::size_t i = 0;
    for (torch::Tensor& tensor : net->parameters()) tensor.copy_(initial_[i++]);
    return net;
  }

  LoopResult train_undisturbed() {
    const TempFolder folder;
    ElasticJob job(1, folder.path());
    job.run([&](std::unique_ptr<Job> worker) { train(std::move(worker), undisturbed); });
    return result_;
  }

  const LoopSamples samples_;
  Mutex mutex_;
  bool first_ = true;
  std::vector<torch::Tensor> initial_;
  LoopResult result_;
};

/// Kills one worker after the other, at points drawn from a seed, each time when all are there again.
class RandomKills {
 public:
  RandomKills(std::uint32_t kills, std::uint32_t workers, std::uint64_t seed) : workers_(workers) {
    RandomStream random(seed);
    for (std::uint32_t i = 0; i < kills; ++i) {
      plan_.push_back({.slot = static_cast<std::uint32_t>(random.next() % workers),
                       .point = static_cast<Point>(random.next() % 3)});
    }
  }

  void operator()(World& world, Step /*step*/, Point point) {
    strike(world, point);
    if (point == Point::kAfterStep) wait_for_workers(world, workers_);
  }

 private:
  struct Kill {
    std::uint32_t slot = 0;
    Point point = Point::kInLane;
  };

  void strike(World& world, Point point) {
    const MutexLock lock(mutex_);
    if (next_ == plan_.size() || world.size() < workers_) return;
    if (plan_[next_].slot != world.job()->slot() || plan_[next_].point != point) return;
    ++next_;
    throw Killed();
  }

  const std::uint32_t workers_;
  std::vector<Kill> plan_;
  Mutex mutex_;
  std::size_t next_ TRIREME_GUARDED_BY(mutex_) = 0;
};

TEST_F(ElasticLoops, HaveTheSameBitsOnAnyNumberOfWorkers) {
  const LoopResult expected = train_undisturbed();
  for (const std::uint32_t workers : {2u, 3u, 4u}) {
    const TempFolder folder;
    ElasticJob job(workers, folder.path());
    job.run([&](std::unique_ptr<Job> worker) { train(std::move(worker), undisturbed); });
    EXPECT_EQ(result_.workers, workers);
    expect_same(result_, expected);
  }
}

TEST_F(ElasticLoops, SurviveTenKills) {
  const LoopResult expected = train_undisturbed();
  const TempFolder folder;
  ElasticJob job(3, folder.path());
  RandomKills kills(10, 3, 1);
  job.run([&](std::unique_ptr<Job> worker) { train(std::move(worker), std::ref(kills)); });
  EXPECT_EQ(job.killed(), 10u);
  expect_same(result_, expected);
}

TEST_F(ElasticLoops, TakeInMoreWorkersThanThereWereAtTheStart) {
  const LoopResult expected = train_undisturbed();
  const TempFolder folder;
  ElasticJob job(2, folder.path());
  std::atomic<bool> begun{false};
  std::jthread third([&] {
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    job.scale(3);
    job.run_worker(2, [&](std::unique_ptr<Job> worker) { train(std::move(worker), undisturbed); });
  });
  job.run([&](std::unique_ptr<Job> worker) {
    train(std::move(worker), [&](World& world, Step step, Point point) {
      if (step < 4 || point != Point::kAfterStep) return;
      begun = true;
      wait_for_workers(world, 3);
    });
  });
  third.join();
  EXPECT_EQ(result_.workers, 3u);
  expect_same(result_, expected);
}

TEST_F(ElasticLoops, AskedForACheckpointThatTheyDoNotMake_SayWhy) {
  const TempFolder folder;
  ElasticJob job(2, folder.path());
  std::atomic<bool> asked{false};
  ::testing::internal::CaptureStderr();
  job.run([&](std::unique_ptr<Job> worker) {
    train(std::move(worker), [&](World& world, Step step, Point point) {
      if (step != 4 || point != Point::kAfterStep) return;
      if (!asked.exchange(true)) job.checkpoint();
      EXPECT_TRUE(eventually([&] { return world.job()->session().regroup_wanted(); }));
    });
  });
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasEvent("checkpoint_skipped", {{"reason", ::testing::HasSubstr("save_every")}}));
}

TEST_F(ElasticLoops, GoOnFromACheckpointWithAnotherNumberOfWorkers) {
  const LoopResult expected = train_undisturbed();
  const TempFolder folder;
  constexpr Step kEvery = 5;
  {
    ElasticJob job(3, folder.path());
    job.run(
        [&](std::unique_ptr<Job> worker) {
          train(
              std::move(worker),
              [&](World& /*world*/, Step step, Point point) {
                if (step < 12 || point != Point::kAfterStep) return;
                EXPECT_TRUE(
                    eventually([&] { return checkpoint::latest_complete(folder / "checkpoints").has_value(); }));
                throw Killed();
              },
              kEvery);
        },
        /*restart=*/false);
    EXPECT_EQ(job.killed(), 3u);
  }
  const auto newest = checkpoint::latest_complete(folder / "checkpoints");
  ASSERT_TRUE(newest);
  const Step saved = checkpoint::Checkpoint::open(*newest).step();
  Step first = kSteps;
  ElasticJob job(2, folder.path());
  job.run([&](std::unique_ptr<Job> worker) {
    train(
        std::move(worker),
        [&](World& world, Step step, Point /*point*/) {
          if (world.chief()) first = std::min(first, step);
        },
        kEvery);
  });
  EXPECT_EQ(first, saved);
  EXPECT_EQ(result_.workers, 2u);
  expect_same(result_, expected);
}

/// Without a DistributedOptimizer: a loop that reduces by itself, and commits every few steps.
TEST_F(ElasticLoops, GoBackToTheLastCommitWithoutADistributedOptimizer) {
  constexpr Step kEvery = 3;
  constexpr Step kLong = 12;
  const TempFolder folder;
  ElasticJob job(2, folder.path());
  std::atomic<bool> killed{false};
  std::string steps_of_chief;
  std::atomic<int> again{0};
  job.run([&](std::unique_ptr<Job> worker) {
    World world(std::move(worker));
    torch::Tensor weight = torch::zeros({4});
    torch::optim::SGD sgd(std::vector<torch::Tensor>{weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
    State state(world, kSampler);
    std::string steps;
    double sum = 0;
    state.add(sgd).add("weight", weight).add("steps", steps).add("sum", sum);
    elastic(world, state, [&] {
      while (state.step() < kLong) {
        weight.mutable_grad() = world.all_reduce(torch::ones({4}));
        if (state.step() == 7 && world.job()->slot() == 1 && !killed.exchange(true)) throw Killed();
        if (killed && state.step() == 6) ++again;
        sgd.step();
        steps += std::to_string(state.step()) + " ";
        sum += static_cast<double>(state.step());
        state.next_step();
        if (killed) wait_for_workers(world, 2);
        if (state.step() % kEvery == 0) state.commit();
      }
      if (!world.chief()) return;
      const MutexLock lock(mutex_);
      steps_of_chief = steps + std::to_string(sum) + " " + std::to_string(weight[0].item<float>());
    });
    world.finish();
  });
  torch::Tensor weight = torch::zeros({4});
  torch::optim::SGD sgd(std::vector<torch::Tensor>{weight}, torch::optim::SGDOptions(0.1).momentum(0.9));
  for (Step step = 0; step < kLong; ++step) {
    weight.mutable_grad() = torch::ones({4});
    sgd.step();
  }
  EXPECT_EQ(steps_of_chief,
            "0 1 2 3 4 5 6 7 8 9 10 11 " + std::to_string(66.0) + " " + std::to_string(weight[0].item<float>()));
  EXPECT_GE(again.load(), 1) << "step 6 is made again: the last commit was before it";
}

TEST_F(ElasticLoops, ClippedStepsHaveTheSameBitsOnAnyNumberOfWorkers) {
  std::vector<torch::Tensor> expected;
  for (const std::uint32_t workers : {1u, 2u, 4u}) {
    const TempFolder folder;
    ElasticJob job(workers, folder.path());
    std::vector<torch::Tensor> weights;
    job.run([&](std::unique_ptr<Job> worker) {
      World world(std::move(worker));
      const auto net = make_net();
      torch::optim::SGD sgd(net->parameters(), 0.5);
      DistributedOptimizer optimizer(world, sgd, net->named_parameters());
      State state(world, kSampler);
      state.add(*net).add(optimizer);
      elastic(world, state, [&] {
        while (state.step() < 8) {
          for (const LaneBatch& lane : state.lanes()) {
            torch::mse_loss(net->forward(rows_of(samples_.x, lane.indices)), rows_of(samples_.y, lane.indices))
                .backward();
            EXPECT_FAILS(torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1), InvalidArgument, "clip_norm(1.0)");
          }
          EXPECT_FAILS(torch::nn::utils::clip_grad_norm_(net->parameters(), 0.1), InvalidArgument, "clip_norm(1.0)");
          EXPECT_GT(optimizer.clip_norm(0.1), 0.1);
          optimizer.step();
        }
        if (!world.chief()) return;
        for (const torch::Tensor& tensor : net->parameters()) weights.push_back(tensor.detach().clone());
      });
      world.finish();
    });
    if (expected.empty()) expected = weights;
    ASSERT_EQ(weights.size(), expected.size());
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(torch::equal(weights[i], expected[i])) << workers;
  }
}

TEST_F(ElasticLoops, RefuseWhatWouldNotSurvive) {
  const TempFolder folder;
  ElasticJob job(1, folder.path());
  job.run([&](std::unique_ptr<Job> worker) {
    World world(std::move(worker));
    const auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    DistributedOptimizer optimizer(world, sgd, net->named_parameters());
    State state(world, kSampler);
    EXPECT_FAILS(state.lanes(), InvalidArgument, "dist::elastic");
    EXPECT_FAILS(elastic(world, state, [] {}), InvalidArgument, "not in the state: add it");
  });
}

TEST_F(ElasticLoops, SayWhatIsWrongWithAStep) {
  for (const bool outside : {true, false}) {
    const TempFolder folder;
    ElasticJob job(1, folder.path());
    job.run([&](std::unique_ptr<Job> worker) {
      World world(std::move(worker));
      const auto net = make_net();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      DistributedOptimizer optimizer(world, sgd, net->named_parameters());
      State state(world, kSampler);
      double number = 0;
      state.add(*net).add(optimizer).add("number", number);
      EXPECT_FAILS(state.add("number", number), InvalidArgument, "called 'number'");
      EXPECT_FAILS(state.add(optimizer), InvalidArgument, "one optimizer");
      EXPECT_FAILS(elastic(world, state,
                           [&] {
                             if (outside) net->forward(samples_.x).sum().backward();
                             for (const LaneBatch& lane : state.lanes()) {
                               net->forward(rows_of(samples_.x, lane.indices)).sum().backward();
                               break;
                             }
                             optimizer.step();
                           }),
                   InvalidArgument, outside ? "outside of a lane" : "all lanes");
    });
  }
}

}  // namespace
}  // namespace trireme::dist
