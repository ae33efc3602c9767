#include "ps/consistency.h"

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

using Mode = Consistency::Mode;

TEST(Consistency, ParsesAndPrints) {
  for (const char* text : {"bsp", "asp", "ssp:0", "ssp:4", "ssp:18446744073709551615"}) {
    EXPECT_EQ(to_string(parse_consistency(text)), text);
  }
  EXPECT_EQ(parse_consistency("ssp:4").slack, 4u);
}

TEST(Consistency, SuggestsACloseName) {
  EXPECT_FAILS(parse_consistency("ssp"), InvalidArgument, "ssp:4");
  for (const char* text : {"ssp:", "ssp:x", "ssp:-1", "ssp:4 ", "ssp:99999999999999999999"}) {
    EXPECT_FAILS(parse_consistency(text), InvalidArgument, text, "ssp:4");
  }
  EXPECT_FAILS(parse_consistency("bps"), InvalidArgument, "'bps'", "bsp");
  EXPECT_FAILS(parse_consistency(""), InvalidArgument, "asp");
}

TEST(Consistency, RefusesInvalidSettings) {
  EXPECT_FAILS(validate({.mode = Mode::kAsp, .backup_workers = 1}, 3), InvalidArgument, "bsp only");
  EXPECT_FAILS(validate({.backup_workers = 2}, 2), InvalidArgument, "2 backup workers of 2");
  EXPECT_FAILS(validate({.damp_stale = true}, 2), InvalidArgument, "never stale");
  EXPECT_FAILS(validate({.mode = static_cast<Mode>(7)}, 2), InvalidArgument, "mode 7");
  EXPECT_NO_THROW(validate({.backup_workers = 1}, 2));
  EXPECT_NO_THROW(validate({.mode = Mode::kSsp, .slack = 4, .damp_stale = true}, 1));
}

TEST(Consistency, TheLeadIsBoundedInSspOnly) {
  const Consistency ssp{.mode = Mode::kSsp, .slack = 2};
  EXPECT_TRUE(may_go_on(ssp, 5, 3));
  EXPECT_FALSE(may_go_on(ssp, 6, 3));
  EXPECT_TRUE(may_go_on(ssp, 1, 9));
  EXPECT_TRUE(may_go_on(ssp, 1, ~Step{0}));
  EXPECT_TRUE(may_go_on({.mode = Mode::kSsp, .slack = ~Step{0}}, 100, 1));
  EXPECT_TRUE(may_go_on({.mode = Mode::kAsp}, 1'000'000, 0));
}

TEST(Consistency, StaleGradientsAreDampedIfAsked) {
  EXPECT_EQ(staleness_factor({.mode = Mode::kAsp}, 10), 1.0);
  const Consistency damped{.mode = Mode::kAsp, .damp_stale = true};
  EXPECT_EQ(staleness_factor(damped, 0), 1.0);
  EXPECT_EQ(staleness_factor(damped, 1), 1.0);
  EXPECT_EQ(staleness_factor(damped, 4), 0.25);
}

}  // namespace
}  // namespace trireme::ps
