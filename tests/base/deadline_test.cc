#include "trireme/deadline.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Deadline, InTheFutureHasTimeLeft) {
  const auto before = Deadline::Clock::now();
  const Deadline deadline = Deadline::in(1h);
  EXPECT_FALSE(deadline.passed());
  EXPECT_GT(deadline.left(), 59min);
  EXPECT_LE(deadline.left(), 1h);
  EXPECT_GE(deadline.at(), before + 1h);
  EXPECT_EQ(deadline.allowed(), 1h);
}

TEST(Deadline, AfterPassing_LeftIsZeroAndAllowedIsKept) {
  EXPECT_TRUE(Deadline::in(0s).passed());
  const Deadline past = Deadline::in(-5s);
  EXPECT_TRUE(past.passed());
  EXPECT_EQ(past.left(), 0s);
  EXPECT_EQ(past.allowed(), -5000ms);
}

TEST(Seconds, ReturnsFractionsOfASecond) { EXPECT_DOUBLE_EQ(seconds(1500ms), 1.5); }

}  // namespace
}  // namespace trireme
