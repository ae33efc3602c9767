#include <gtest/gtest.h>

#include "trireme/strategy.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

using Outer = LocalSgdChoice::Outer;

TEST(LocalSgdChoice, TextRoundTrips) {
  for (const std::string text :
       {"1", "16", "16,elastic=0.5", "4,outer=sgd,outer-lr=1", "16,outer=momentum,outer-lr=0.7,outer-momentum=0.8",
        "16,outer=nesterov,outer-lr=0.7,outer-momentum=0.9"}) {
    EXPECT_EQ(to_string(parse_local_sgd(text)), text);
  }
}

TEST(LocalSgdChoice, DefaultsAreThoseOfThePapers) {
  EXPECT_EQ(parse_local_sgd("32"), (LocalSgdChoice{.steps = 32}));
  EXPECT_EQ(parse_local_sgd("32,outer=nesterov"),
            (LocalSgdChoice{.steps = 32, .outer = Outer::kNesterov, .outer_lr = 0.7, .outer_momentum = 0.9}));
  EXPECT_EQ(parse_local_sgd("8,elastic=0.9"), (LocalSgdChoice{.steps = 8, .elastic = 0.9}));
}

TEST(LocalSgdChoice, SaysWhatIsWrong) {
  EXPECT_FAILS(parse_local_sgd(""), InvalidArgument, "how many steps", "local-sgd:16");
  for (const char* text : {"0", "-1", "x", "16x", "1.5", ",outer=sgd"}) {
    EXPECT_FAILS(parse_local_sgd(text), InvalidArgument, "number of steps");
  }
  EXPECT_FAILS(parse_local_sgd("16,outer"), InvalidArgument, "'outer' sets nothing");
  EXPECT_FAILS(parse_local_sgd("16,outter=sgd"), InvalidArgument, "unknown setting 'outter'", "outer");
  EXPECT_FAILS(parse_local_sgd("16,outer=nestorov"), InvalidArgument, "'nestorov'", "nesterov");
  EXPECT_FAILS(parse_local_sgd("16,outer=sgd,outer-lr=0"), InvalidArgument, "outer-lr '0'", "above 0");
  EXPECT_FAILS(parse_local_sgd("16,outer=sgd,outer-lr=nan"), InvalidArgument, "outer-lr");
  EXPECT_FAILS(parse_local_sgd("16,outer=nesterov,outer-momentum=1"), InvalidArgument, "below 1");
  EXPECT_FAILS(parse_local_sgd("16,elastic=1.5"), InvalidArgument, "at most 1");
  EXPECT_FAILS(parse_local_sgd("16,elastic=0.5,outer=sgd"), InvalidArgument, "one of the two");
  EXPECT_FAILS(parse_local_sgd("16,outer-lr=0.5"), InvalidArgument, "add outer=nesterov");
}

}  // namespace
}  // namespace trireme::cluster
