#include "optim/loss_scale.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/expect_fails.h"

namespace trireme::optim {
namespace {

TEST(LossScale, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_loss_scale("1024"), (LossScaleOptions{.scale = 1024}));
  EXPECT_EQ(parse_loss_scale("dynamic"), (LossScaleOptions{.dynamic = true, .scale = 65536, .growth_every = 2000}));
  EXPECT_EQ(parse_loss_scale("dynamic,init=8,every=3"),
            (LossScaleOptions{.dynamic = true, .scale = 8, .growth_every = 3}));
  for (const char* wrong : {"", "fast", "0", "-1", "inf", "nan", "1e60", "8,every=3",
                            "dynamic,init=", "dynamic,every=0", "dynamic,grow=2", "dynamic8"}) {
    EXPECT_FAILS(parse_loss_scale(wrong), InvalidArgument, "loss scale");
  }
}

TEST(LossScale, DoublesAfterGoodStepsAndHalvesAfterOneThatIsNotFinite) {
  LossScale scale = first_scale({.dynamic = true, .scale = 8, .growth_every = 3});
  const auto next = [&](bool finite) {
    scale = after_step(scale, finite, 3);
    return scale.scale;
  };
  EXPECT_EQ(next(true), 8);
  EXPECT_EQ(next(true), 8);
  EXPECT_EQ(next(false), 4) << "and the good steps before count no more";
  EXPECT_EQ(next(true), 4);
  EXPECT_EQ(next(true), 4);
  EXPECT_EQ(next(true), 8);
  EXPECT_EQ(next(true), 8);
  EXPECT_EQ(scale.skipped, 1);
  EXPECT_EQ(LossScale::from(scale.floats()), scale);
}

TEST(LossScale, NeverGrowsBeyondWhatCanBeInverted) {
  LossScale scale{.scale = 0x1p126f};
  scale = after_step(scale, true, 1);
  EXPECT_EQ(scale.scale, 0x1p126f);
  EXPECT_GE(1 / scale.scale, std::numeric_limits<float>::min());
}

TEST(LossScale, AGradientThatIsNeverFiniteIsAnError) {
  LossScale scale = first_scale(parse_loss_scale("dynamic"));
  for (int i = 0; i < 40; ++i) {
    scale = after_step(scale, false, 2000);
    check_useful(scale, 7);
  }
  EXPECT_FAILS(check_useful(after_step(scale, false, 2000), 7), InvalidArgument, "step 7", "not finite");
}

TEST(LossScale, FindsTheOneElementThatIsNotFinite) {
  for (const std::size_t size : {1, 7, 16, 100}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    EXPECT_TRUE(all_finite(values));
    for (const float wrong : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()}) {
      for (std::size_t at = 0; at < size; ++at) {
        std::vector<float> one = values;
        one[at] = wrong;
        EXPECT_FALSE(all_finite(one)) << size << ' ' << at;
      }
    }
  }
  EXPECT_TRUE(all_finite({}));
}

}  // namespace
}  // namespace trireme::optim
