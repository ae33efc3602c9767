#include "train/compute/lane_computer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"
#include "tests/train/alone.h"

namespace trireme {
namespace {

/// Keeps the gradients where a test can see them.
class Kept final : public GradientSink {
 public:
  explicit Kept(const Model& model) {
    for (const torch::Tensor& parameter : model.module->parameters()) {
      gradients_.push_back(torch::full({parameter.numel()}, 99.0f));
    }
  }
  std::span<float> gradient(std::size_t i) override {
    return {gradients_[i].data_ptr<float>(), static_cast<std::size_t>(gradients_[i].numel())};
  }
  void add(std::size_t i) override { added_.push_back(i); }

  torch::Tensor all() const { return torch::cat(gradients_).clone(); }
  const std::vector<std::size_t>& added() const { return added_; }

 private:
  std::vector<torch::Tensor> gradients_;
  std::vector<std::size_t> added_;
};

/// The lanes of step `step` with the samples that `sampler` gives them.
StepWork work_of(const data::Dataset& dataset, const data::Sampler& sampler, Step step, LaneRange lanes) {
  StepWork work{.step = step, .lanes = lanes, .items = {}};
  for (Lane lane = lanes.first; lane < lanes.end(); ++lane) {
    data::Item item;
    item.work = {.step = step, .lane = lane, .indices = sampler.indices(step, lane)};
    dataset.read(item.work.indices, item.batch);
    work.items.push_back(std::move(item));
  }
  return work;
}

struct Computed {
  torch::Tensor gradient;  // all parameters, flat
  std::vector<std::size_t> added;
  LaneStatistics statistics;
};

Computed compute(const Model& model, const TrainOptions& options, const data::Dataset& dataset, Step step,
                 LaneRange lanes) {
  const data::Sampler sampler(
      {.samples = dataset.size(), .batch = options.batch, .lanes = options.lanes, .seed = options.seed});
  Kept kept(model);
  TrainOptions complete = options;
  if (!complete.task.compute) complete.task = classification();
  const auto statistics = LaneComputer(model, complete).compute(work_of(dataset, sampler, step, lanes), kept);
  LaneStatistics all;
  for (const LaneStatistics& lane : statistics) {
    all.loss_sum += lane.loss_sum;
    trireme::add(all.metrics, lane.metrics);
    all.samples += lane.samples;
  }
  return {kept.all(), kept.added(), all};
}

/// A net whose output is random while it trains.
Model make_dropout_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(2, 16), torch::nn::Dropout(0.5), torch::nn::Linear(16, 2));
}

TEST(LaneComputer, TheSumOverLanesIsTheGradientOfTheWholeBatch) {
  const auto points = make_points(50);
  const Model model = make_linear();
  const auto whole = compute(model, {.batch = 20, .lanes = 1}, *points, 0, {0, 1});
  for (const Lane lanes : {2u, 3u, 4u, 7u}) {
    const auto sum = compute(model, {.batch = 20, .lanes = lanes}, *points, 0, {0, lanes});
    EXPECT_TRUE(torch::allclose(sum.gradient, whole.gradient, 1e-5, 1e-5)) << lanes << " lanes";
    EXPECT_EQ(sum.statistics.samples, 20u);
    EXPECT_EQ(sum.statistics.metrics.at(0).sum, whole.statistics.metrics.at(0).sum);
    EXPECT_NEAR(sum.statistics.loss_sum, whole.statistics.loss_sum, 1e-4);
  }
}

TEST(LaneComputer, EachParameterIsAddedOnceAndTheLastFirst) {
  const auto points = make_points(50);
  const auto done = compute(make_linear(), {.batch = 20, .lanes = 4}, *points, 0, {0, 4});
  EXPECT_THAT(done.added, ::testing::UnorderedElementsAre(0, 1));
}

TEST(LaneComputer, PartialSumsOfWorkersGiveTheSameBits) {
  const auto points = make_points(50);
  const Model model = make_dropout_net();
  const TrainOptions options{.batch = 20, .lanes = 4};
  const auto all = compute(model, options, *points, 2, {0, 4});
  const auto left = compute(model, options, *points, 2, {0, 2});
  const auto right = compute(model, options, *points, 2, {2, 2});
  EXPECT_TRUE(torch::equal(left.gradient + right.gradient, all.gradient));
}

TEST(LaneComputer, RandomNumbersBelongToStepAndLane) {
  const auto points = make_points(20);
  const Model model = make_dropout_net();
  const TrainOptions options{.batch = 20, .lanes = 2};
  const auto once = compute(model, options, *points, 0, {0, 2});
  torch::rand({1000});  // somebody else draws numbers in between
  EXPECT_TRUE(torch::equal(compute(model, options, *points, 0, {0, 2}).gradient, once.gradient));
  EXPECT_FALSE(torch::equal(compute(model, options, *points, 1, {0, 2}).gradient, once.gradient));
}

TEST(LaneComputer, PartsOfALaneAddUpToTheWhole) {
  const auto points = make_points(50);
  const Model model = make_linear();
  const auto whole = compute(model, {.batch = 20, .lanes = 2}, *points, 0, {0, 2});
  for (const std::uint32_t parts : {2u, 3u, 4u, 10u, 100u}) {  // 3: uneven; 100: more than samples
    const auto sum = compute(model, {.batch = 20, .lanes = 2, .accumulate = parts}, *points, 0, {0, 2});
    EXPECT_TRUE(torch::allclose(sum.gradient, whole.gradient, 1e-5, 1e-5)) << parts << " parts";
    EXPECT_EQ(sum.added, whole.added);
    EXPECT_EQ(sum.statistics.samples, 20u);
    EXPECT_EQ(sum.statistics.metrics.at(0).sum, whole.statistics.metrics.at(0).sum);
    EXPECT_NEAR(sum.statistics.loss_sum, whole.statistics.loss_sum, 1e-4);
  }
}

TEST(LaneComputer, OnlyOnePartOfALaneIsInMemory) {
  const auto points = make_points(50);
  std::vector<std::int64_t> sizes;
  Model model = make_linear();
  model.run = [&, forward = model.run](const std::vector<torch::Tensor>& inputs) {
    sizes.push_back(inputs[0].size(0));
    return forward(inputs);
  };
  compute(model, {.batch = 20, .lanes = 2, .accumulate = 4}, *points, 0, {0, 2});
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{3, 3, 2, 2, 3, 3, 2, 2}));
}

TEST(LaneComputer, LanesWithoutSamplesCountNothing) {
  const auto points = make_points(22);  // the second step has 2 samples for 4 lanes
  const Model model = make_linear();
  const auto last = compute(model, {.batch = 20, .lanes = 4}, *points, 1, {0, 4});
  EXPECT_EQ(last.statistics.samples, 2u);
  EXPECT_EQ(last.added.size(), 2u);
  const auto empty = compute(model, {.batch = 20, .lanes = 4}, *points, 1, {2, 2});
  EXPECT_EQ(empty.statistics.samples, 0u);
  EXPECT_EQ(empty.gradient.abs().sum().item<float>(), 0);
}

TEST(LaneComputer, ALossThatIsNotFiniteNamesStepAndLane) {
  const auto points = make_points(50);
  TrainOptions options{.batch = 20, .lanes = 4};
  int calls = 0;
  options.task = task_with([&](const torch::Tensor& output, const torch::Tensor&) {
    return output.sum() * (++calls == 3 ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
  });
  EXPECT_FAILS(compute(make_linear(), options, *points, 1, {0, 4}), InvalidArgument, "nan at step 1, lane 2",
               "learning rate");
}

}  // namespace
}  // namespace trireme
