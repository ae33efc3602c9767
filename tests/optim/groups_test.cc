#include <gtest/gtest.h>

#include "trireme/optimizer.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::optim {
namespace {

TEST(ParameterGroups, TextGivesGroupsAndBack) {
  const ParameterGroup group = parse_group("head.*:lr=10,decay=0");
  EXPECT_EQ(group, (ParameterGroup{.match = "head.*", .lr = 10, .decay = 0}));
  EXPECT_EQ(parse_group(to_string(group)), group);
  EXPECT_EQ(parse_group("h.0.*:frozen"), (ParameterGroup{.match = "h.0.*", .frozen = true}));
  const auto several = parse_groups("1d:decay=0;*:lr=2");
  ASSERT_EQ(several.size(), 2u);
  EXPECT_EQ(several[1].match, "*");
  EXPECT_TRUE(parse_groups("").empty());
}

TEST(ParameterGroups, WrongTextSaysWhatIsExpected) {
  EXPECT_FAILS(parse_group("bias"), InvalidArgument, "'bias'", "colon", "1d:decay=0");
  EXPECT_FAILS(parse_group("*:"), InvalidArgument, "there are lr=, decay= and frozen");
  EXPECT_FAILS(parse_group("*:speed=3"), InvalidArgument, "'speed=3'");
  EXPECT_FAILS(parse_group("*:lr=-1"), InvalidArgument, "'-1'");
  EXPECT_FAILS(parse_group("*:lr=inf"), InvalidArgument, "'inf'");
}

TEST(ParameterGroups, NamesMatchByPatternOrDimensions) {
  const auto match = [](const char* pattern, const char* name, std::size_t dimensions = 2) {
    return matches({.match = pattern}, name, dimensions);
  };
  EXPECT_TRUE(match("*.bias", "conv1.bias"));
  EXPECT_FALSE(match("*.bias", "conv1.biases"));
  EXPECT_TRUE(match("h.?.*", "h.3.ln_1.weight"));
  EXPECT_FALSE(match("h.?.*", "h.13.ln_1.weight"));
  EXPECT_TRUE(match("*a*b*", "xaybz"));
  EXPECT_FALSE(match("*a*b", "xaybz"));
  EXPECT_TRUE(match("1d", "ln.weight", 1));
  EXPECT_FALSE(match("1d", "ln.weight", 2));
}

}  // namespace
}  // namespace trireme::optim
