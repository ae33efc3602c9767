#include "tune/space.h"

#include <cmath>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_fails.h"

namespace trireme::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const std::vector<KnownFlag> kFlags{{.name = "lr", .number = true},
                                    {.name = "batch", .whole = true, .number = true},
                                    {.name = "optimizer"},
                                    {.name = "steps", .whole = true, .number = true, .refused = "all are as long"}};

Space space(const std::string& text) { return parse_space({text}, kFlags); }

TEST(Space, ReadsChoicesAndRanges) {
  const Space all = space("lr=log:1e-4:1e-1,batch=32|64,optimizer=sgd|adam");
  ASSERT_EQ(all.dimensions.size(), 3u);
  EXPECT_EQ(all.dimensions[0].kind, Dimension::Kind::kLog);
  EXPECT_DOUBLE_EQ(all.dimensions[0].low, 1e-4);
  EXPECT_DOUBLE_EQ(all.dimensions[0].high, 0.1);
  EXPECT_THAT(all.dimensions[1].choices, ElementsAre("32", "64"));
  EXPECT_EQ(all.size(), 0u);
  EXPECT_EQ(space("lr=log:1e-4:1e-1:7,batch=32|64").size(), 14u);
  EXPECT_EQ(parse_space({"lr=0.1|0.2", "batch=8|9|10"}, kFlags).size(), 6u);
}

TEST(Space, RefusesWhatItCannotRead) {
  EXPECT_FAILS(space("lr"), InvalidArgument, "--space lr", "lr=log:1e-4:1e-1");
  EXPECT_FAILS(space("lr="), InvalidArgument, "--space lr=");
  EXPECT_FAILS(space("=3"), InvalidArgument, "--space =3");
  EXPECT_FAILS(space("lr=1|"), InvalidArgument, "empty");
  EXPECT_FAILS(space("lr=1|1"), InvalidArgument, "twice");
  EXPECT_FAILS(space("lr=1,lr=2"), InvalidArgument, "already");
  EXPECT_FAILS(space("lrr=1"), InvalidArgument, "--lrr", "did you mean 'lr'");
  EXPECT_FAILS(space("steps=1|2"), InvalidArgument, "all are as long");
  EXPECT_FAILS(space("lr=log:0:1"), InvalidArgument, "above 0", "linear:");
  EXPECT_FAILS(space("lr=log:1"), InvalidArgument, "log:<from>:<to>");
  EXPECT_FAILS(space("lr=log:1:x"), InvalidArgument, "log:<from>:<to>");
  EXPECT_FAILS(space("lr=log:1:2:3:4"), InvalidArgument, "log:<from>:<to>");
  EXPECT_FAILS(space("lr=linear:2:1"), InvalidArgument, "below its end");
  EXPECT_FAILS(space("lr=linear:1:2:1"), InvalidArgument, "from 2 on");
  EXPECT_FAILS(space("lr=linear:1:inf"), InvalidArgument, "linear:<from>:<to>");
  EXPECT_FAILS(space("optimizer=log:1:2"), InvalidArgument, "takes no numbers");
}

TEST(Space, GridHasAllCombinationsWithTheLastFlagFastest) {
  const auto trials = grid(space("lr=log:0.001:0.1:3,batch=32|64"), 27);
  ASSERT_EQ(trials.size(), 6u);
  EXPECT_THAT(trials[0], ElementsAre(Pair("lr", "0.001"), Pair("batch", "32")));
  EXPECT_THAT(trials[1], ElementsAre(Pair("lr", "0.001"), Pair("batch", "64")));
  EXPECT_THAT(trials[2], ElementsAre(Pair("lr", "0.01"), Pair("batch", "32")));
  EXPECT_THAT(trials[5], ElementsAre(Pair("lr", "0.1"), Pair("batch", "64")));
}

TEST(Space, GridOfAnOpenRangeHasAsManyValuesAsThereAreTrials) {
  EXPECT_EQ(grid(space("lr=log:1e-4:1e-1,batch=32|64"), 27).size(), 26u);
  EXPECT_EQ(grid(space("lr=log:1e-4:1e-1"), 7).size(), 7u);
  EXPECT_FAILS(grid(space("lr=log:1e-4:1e-1,batch=32|64"), 3), InvalidArgument, "--trials 3", "4 combinations");
  EXPECT_EQ(grid(space("batch=linear:1:3:9"), 9).size(), 3u) << "whole numbers repeat";
}

TEST(Space, SampleOfFewCombinationsIsAllOfThemOnce) {
  const auto trials = sample(space("lr=log:1e-4:1e-1:9,batch=32|64"), 100, 7);
  EXPECT_EQ(trials.size(), 18u);
  EXPECT_EQ(std::set<Values>(trials.begin(), trials.end()).size(), 18u);
  EXPECT_NE(trials, grid(space("lr=log:1e-4:1e-1:9,batch=32|64"), 100));
}

TEST(Space, SampleIsDecidedByItsSeedAndSpreadsEvenly) {
  const Space open = space("lr=log:1e-4:1e-1,batch=32|64|128");
  const auto trials = sample(open, 27, 7);
  EXPECT_EQ(trials, sample(open, 27, 7));
  EXPECT_NE(trials, sample(open, 27, 8));
  std::map<std::string, int> batches;
  std::set<int> parts;
  for (const Values& trial : trials) {
    const double lr = std::stod(trial[0].second);
    EXPECT_GE(lr, 1e-4);
    EXPECT_LE(lr, 0.1);
    parts.insert(static_cast<int>((std::log10(lr) + 4) * 9 - 1e-3));
    ++batches[trial[1].second];
  }
  EXPECT_GE(parts.size(), 26u) << "each twenty-seventh of the range is tried";
  EXPECT_THAT(batches, ElementsAre(Pair("128", 9), Pair("32", 9), Pair("64", 9)));
}

}  // namespace
}  // namespace trireme::tune
