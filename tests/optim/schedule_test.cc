#include <gtest/gtest.h>

#include "trireme/optimizer.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::optim {
namespace {

TEST(Schedule, ConstantIsOne) {
  const Schedule lr = make_schedule({.shape = "constant", .steps = 10});
  EXPECT_EQ(lr(0), 1);
  EXPECT_EQ(lr(9), 1);
  EXPECT_EQ(lr(1000), 1);
}

TEST(Schedule, LinearAndCosineFallFromOneToZero) {
  for (const char* shape : {"linear", "cosine"}) {
    const Schedule lr = make_schedule({.shape = shape, .steps = 100});
    EXPECT_DOUBLE_EQ(lr(0), 1) << shape;
    EXPECT_NEAR(lr(50), 0.5, 1e-12) << shape;
    EXPECT_NEAR(lr(100), 0, 1e-12) << shape;
    EXPECT_NEAR(lr(200), 0, 1e-12) << shape << " beyond its end";
    for (Step step = 1; step <= 100; ++step) EXPECT_LT(lr(step), lr(step - 1)) << shape;
  }
  EXPECT_NEAR(make_schedule({.shape = "cosine", .steps = 4})(1), 0.85355339, 1e-8);
  EXPECT_DOUBLE_EQ(make_schedule({.shape = "linear", .steps = 4})(1), 0.75);
}

TEST(Schedule, StepsDownEveryFewEpochs) {
  const Schedule lr = make_schedule({.shape = "step:2:0.1", .steps = 60, .steps_per_epoch = 10});
  EXPECT_DOUBLE_EQ(lr(0), 1);
  EXPECT_DOUBLE_EQ(lr(19), 1);
  EXPECT_DOUBLE_EQ(lr(20), 0.1);
  EXPECT_DOUBLE_EQ(lr(39), 0.1);
  EXPECT_NEAR(lr(40), 0.01, 1e-15);
}

TEST(Schedule, WarmUpRisesToTheFullRateAndTheRestFollows) {
  const Schedule constant = make_schedule({.shape = "constant", .warmup = 4, .steps = 10});
  EXPECT_DOUBLE_EQ(constant(0), 0.25);
  EXPECT_DOUBLE_EQ(constant(3), 1);
  EXPECT_DOUBLE_EQ(constant(4), 1);
  const Schedule linear = make_schedule({.shape = "linear", .warmup = 10, .steps = 20});
  EXPECT_DOUBLE_EQ(linear(4), 0.5);
  EXPECT_DOUBLE_EQ(linear(10), 1);
  EXPECT_DOUBLE_EQ(linear(15), 0.5);
}

TEST(Schedule, WarmUpMayBeLongerThanTheRun) {
  for (const char* shape : {"constant", "linear", "cosine"}) {
    EXPECT_DOUBLE_EQ(make_schedule({.shape = shape, .warmup = 10, .steps = 10})(4), 0.5) << shape;
  }
}

TEST(Schedule, LengthOfItsOwnDoesNotDependOnTheRun) {
  for (const std::string shape : {"cosine", "linear"}) {
    const Schedule whole = make_schedule({.shape = shape, .warmup = 5, .steps = 90});
    const Schedule beginning = make_schedule({.shape = shape + ":90", .warmup = 5, .steps = 10});
    for (const Step step : {0, 4, 9, 40, 89}) EXPECT_DOUBLE_EQ(beginning(step), whole(step)) << shape << " " << step;
    for (const char* wrong : {":", ":0", ":x", ":9x", ":-1"}) {
      EXPECT_FAILS(make_schedule({.shape = shape + wrong}), InvalidArgument, shape + wrong, shape + ":900");
    }
  }
}

TEST(Schedule, RefusesUnknownShapes) {
  EXPECT_FAILS(make_schedule({.shape = "cosin"}), InvalidArgument, "unknown schedule 'cosin'", "cosine");
  for (const char* shape : {"step:", "step:10", "step:0:0.1", "step:10:0", "step:10:-1", "step:10:0.1x"}) {
    EXPECT_FAILS(make_schedule({.shape = shape}), InvalidArgument, shape, "step:10:0.1");
  }
}

}  // namespace
}  // namespace trireme::optim
