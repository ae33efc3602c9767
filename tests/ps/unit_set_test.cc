#include "ps/unit_set.h"

#include <set>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme::ps {
namespace {

TEST(UnitSet, MatchesStdSetWithTheFewestRuns) {
  RandomStream random(1);
  for (int round = 0; round < 100; ++round) {
    UnitSet units;
    std::set<std::uint64_t> expected;
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t unit = random.below(150);
      EXPECT_EQ(units.insert(unit), expected.insert(unit).second);
    }
    std::size_t runs = 0;
    for (std::uint64_t unit = 0; unit < 151; ++unit) {
      EXPECT_EQ(units.contains(unit), expected.contains(unit));
      runs += expected.contains(unit) && !expected.contains(unit + 1) ? 1 : 0;
    }
    EXPECT_EQ(units.runs().size(), runs);
    EXPECT_EQ(UnitSet(units.runs()), units);
  }
}

TEST(UnitSet, RefusesInvalidRuns) {
  EXPECT_NO_THROW(UnitSet({{0, 2}, {3, 1}}));
  EXPECT_THROW(UnitSet({{0, 0}}), Corrupt);
  EXPECT_THROW(UnitSet({{0, 2}, {2, 1}}), Corrupt);
  EXPECT_THROW(UnitSet({{5, 2}, {1, 1}}), Corrupt);
  EXPECT_THROW(UnitSet({{5, ~std::uint64_t{0}}}), Corrupt);
}

}  // namespace
}  // namespace trireme::ps
