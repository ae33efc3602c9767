#include "optim/clipping.h"

#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::optim {
namespace {

ExactSum squares_of(std::vector<float> values) {
  ExactSum sum;
  add_squares(values, sum);
  return sum;
}

TEST(ClipFactor, ShortensWhatIsTooLong) {
  const ExactSum squares = squares_of({30, 40});                     // of the sum over 10 samples: the mean is 5 long
  EXPECT_DOUBLE_EQ(clip_factor(squares, 10, 1, 0), 1 / (5 + 1e-6));  // as torch
  EXPECT_EQ(clip_factor(squares, 10, 5.1, 0), 1);
  EXPECT_EQ(clip_factor(squares_of({0}), 10, 1, 0), 1);
  EXPECT_EQ(clip_factor(squares_of({0}), 0, 1, 0), 1) << "of no samples";
}

TEST(ClipFactor, AGradientThatIsNotFiniteNamesTheStep) {
  EXPECT_FAILS(clip_factor(squares_of({std::numeric_limits<float>::infinity()}), 1, 1, 17), InvalidArgument, "step 17");
  EXPECT_FAILS(clip_factor(squares_of({std::numeric_limits<float>::quiet_NaN()}), 1, 1, 17), InvalidArgument,
               "not finite");
}

}  // namespace
}  // namespace trireme::optim
