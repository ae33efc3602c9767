#include <gtest/gtest.h>

#include "trireme/dist.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::dist {
namespace {

TEST(ScaleBySize, RisesFromOneToTheNumberOfWorkersAndStaysThere) {
  const optim::Schedule lr = scale_by_size({.size = 8, .warmup_epochs = 5, .steps_per_epoch = 20});
  EXPECT_DOUBLE_EQ(lr(0), 1);
  EXPECT_DOUBLE_EQ(lr(50), 4.5);
  EXPECT_DOUBLE_EQ(lr(100), 8);
  EXPECT_DOUBLE_EQ(lr(10000), 8);
  for (Step step = 1; step <= 100; ++step) EXPECT_GT(lr(step), lr(step - 1));
}

TEST(ScaleBySize, WithoutWarmUpOrWithOneWorkerIsConstant) {
  EXPECT_DOUBLE_EQ(scale_by_size({.size = 4, .warmup_epochs = 0})(0), 4);
  EXPECT_DOUBLE_EQ(scale_by_size({.size = 1, .warmup_epochs = 5, .steps_per_epoch = 10})(7), 1);
}

TEST(ScaleBySize, MultipliesTheGivenSchedule) {
  const optim::Schedule lr = scale_by_size({.size = 2, .warmup_epochs = 1, .steps_per_epoch = 10},
                                           optim::make_schedule({.shape = "linear", .steps = 100}));
  EXPECT_DOUBLE_EQ(lr(5), 1.5 * 0.95);
  EXPECT_DOUBLE_EQ(lr(50), 2 * 0.5);
}

TEST(ScaleBySize, RefusesInvalidOptions) {
  EXPECT_FAILS(scale_by_size({.size = 0}), InvalidArgument, "at least 1");
  EXPECT_FAILS(scale_by_size({.warmup_epochs = -1}), InvalidArgument, "-1 epochs");
}

TEST(SetLearningRate, ReachesEveryGroup) {
  const auto weight = torch::zeros({1}, torch::requires_grad());
  const auto bias = torch::zeros({1}, torch::requires_grad());
  torch::optim::SGD sgd({torch::optim::OptimizerParamGroup({weight}), torch::optim::OptimizerParamGroup({bias})},
                        torch::optim::SGDOptions(0.5));
  set_learning_rate(sgd, 0.25);
  (weight + bias).sum().backward();
  sgd.step();
  EXPECT_EQ(weight.item<float>(), -0.25f);
  EXPECT_EQ(bias.item<float>(), -0.25f);
}

}  // namespace
}  // namespace trireme::dist
