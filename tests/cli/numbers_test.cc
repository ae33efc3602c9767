#include "cli/flags/numbers.h"

#include <gtest/gtest.h>

#include "tests/support/expect_fails.h"

namespace trireme::cli {
namespace {

TEST(Numbers, AreReadWhole) {
  EXPECT_EQ(parse_number<std::uint32_t>("--n", "12", {}), 12u);
  EXPECT_EQ(parse_number<int>("--n", "-3", {.least = -5}), -3);
  EXPECT_EQ(parse_number<double>("--x", "1e-3", {}), 1e-3);
  for (const char* text : {"", " 1", "1 ", "1x", "0x10", "+1", "1.5", "-1", "nan"}) {
    EXPECT_FAILS(parse_number<std::uint64_t>("--n", text, {}), InvalidArgument, "--n", "a whole number from 0 on");
  }
}

TEST(Numbers, ThatDoNotFitAreRefusedWithTheLargest) {
  EXPECT_FAILS(parse_number<std::uint32_t>("--n", "4294967296", {.least = 1}), InvalidArgument,
               "--n 4294967296: it takes at most 4294967295");
  EXPECT_FAILS(parse_number<int>("--n", "-99999999999", {}), InvalidArgument, "from 0 on");
}

TEST(Numbers, OutsideTheLimitsAreRefused) {
  EXPECT_FAILS(parse_number<double>("--lr", "0", {.above = true}), InvalidArgument, "--lr 0",
               "a finite number above 0");
  EXPECT_FAILS(parse_number<double>("--m", "1", {.most = 1, .below = true}), InvalidArgument, "from 0, below 1");
  EXPECT_FAILS(parse_number<double>("--t", "2", {.most = 1, .above = true}), InvalidArgument, "above 0, up to 1");
  for (const char* text : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_FAILS(parse_number<double>("--lr", text, {}), InvalidArgument, "--lr", "a finite number from 0 on");
  }
}

}  // namespace
}  // namespace trireme::cli
