#include "cluster/strategy_choice.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

using Kind = StrategyChoice::Kind;

TEST(StrategyChoice, IsReadFromItsName) {
  EXPECT_EQ(parse_strategy("ps"), (StrategyChoice{.kind = Kind::kParameterServer}));
  EXPECT_EQ(parse_strategy("allreduce"), (StrategyChoice{.kind = Kind::kAllReduce}));
  EXPECT_EQ(parse_strategy("central"), (StrategyChoice{.kind = Kind::kCentral}));
  EXPECT_EQ(parse_strategy("local-sgd:16"), (StrategyChoice{.kind = Kind::kLocalSgd, .local_sgd = {.steps = 16}}));
}

TEST(StrategyChoice, TextRoundTrips) {
  for (const std::string text : {"ps", "allreduce", "central", "local-sgd:1", "local-sgd:128"}) {
    EXPECT_EQ(to_string(parse_strategy(text)), text);
  }
}

TEST(StrategyChoice, SuggestsACloseName) {
  EXPECT_FAILS(parse_strategy("allreduse"), InvalidArgument, "'allreduse'", "did you mean 'allreduce'");
  EXPECT_FAILS(parse_strategy("local-sdg:4"), InvalidArgument, "did you mean 'local-sgd'", "local-sgd:<steps>");
  EXPECT_FAILS(parse_strategy(""), InvalidArgument, "use ps, allreduce");
  for (const char* text : {"local-sgd", "local-sgd:", "local-sgd:0", "local-sgd:x", "local-sgd:4x", "local-sgd:-1"}) {
    EXPECT_FAILS(parse_strategy(text), InvalidArgument, text, "such as local-sgd:16");
  }
}

TEST(StrategyChoice, KnowsWhetherItNeedsServers) {
  check_servers({.kind = Kind::kParameterServer}, 3);
  check_servers({.kind = Kind::kAllReduce}, 0);
  check_servers({.kind = Kind::kLocalSgd, .local_sgd = {.steps = 4}}, 0);
  check_servers({.kind = Kind::kCentral}, 1);
  check_servers({.kind = Kind::kAllReduce}, 1);  // they stand idle: a program of the user's own may not need them
  EXPECT_FAILS(check_servers({.kind = Kind::kParameterServer}, 0), InvalidArgument, "strategy ps", "--servers 1");
  EXPECT_FAILS(check_servers({.kind = Kind::kCentral}, 0), InvalidArgument, "strategy central");
  EXPECT_FAILS(check_servers({.kind = Kind::kCentral}, 2), InvalidArgument, "one place", "2 servers");
}

TEST(StrategyChoice, DescriptionIncludesTheConsistencyOfPs) {
  EXPECT_EQ(describe({.kind = Kind::kParameterServer}, "ssp:4"), "ps:ssp:4");
  EXPECT_EQ(describe({.kind = Kind::kAllReduce}, "bsp"), "allreduce");
}

TEST(BufferPolicy, IsReadFromItsName) {
  EXPECT_EQ(parse_buffers("average"), BufferPolicy::kAverage);
  EXPECT_EQ(parse_buffers("broadcast"), BufferPolicy::kBroadcast);
  EXPECT_EQ(parse_buffers("own"), BufferPolicy::kOwn);
  EXPECT_FAILS(parse_buffers("averge"), InvalidArgument, "did you mean 'average'");
}

}  // namespace
}  // namespace trireme::cluster
