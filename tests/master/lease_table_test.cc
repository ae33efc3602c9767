#include "master/lease_table.h"

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "tests/support/expect_fails.h"

namespace trireme::master {
namespace {

TEST(LeaseSize, ShrinksToOneAtTheEnd) {
  EXPECT_EQ(lease_size(1'000'000, 4), 16u);
  EXPECT_EQ(lease_size(8 * 4 * 5, 4), 5u);
  EXPECT_EQ(lease_size(3, 4), 1u);
  EXPECT_EQ(lease_size(0, 4), 1u);
  EXPECT_EQ(lease_size(100, 0), 12u);
}

TEST(LeaseTable, EveryUnitIsFinishedOnceUnderRandomEvents) {
  constexpr std::uint64_t kUnits = 1000;
  RandomStream random(3);
  LeaseTable table({.total = kUnits, .workers = 4});
  std::vector<int> finished(kUnits, 0);
  std::vector<std::vector<cluster::UnitRange>> held(4);
  while (!table.over()) {
    const auto worker = static_cast<Rank>(random.below(4));
    auto& mine = held[worker];
    switch (random.below(8)) {
      case 0:  // dies
        table.give_back(worker);
        mine.clear();
        break;
      case 1:
      case 2:
      case 3:
        if (const cluster::UnitRange range = table.next(worker); range.count > 0) mine.push_back(range);
        break;
      default:
        if (mine.empty()) break;
        const cluster::UnitRange part{mine.back().first, 1 + random.below(mine.back().count)};
        table.finish(part);
        for (std::uint64_t unit = part.first; unit < part.first + part.count; ++unit) ++finished[unit];
        mine.back() = {part.first + part.count, mine.back().count - part.count};
        if (mine.back().count == 0) mine.pop_back();
    }
  }
  EXPECT_EQ(finished, std::vector<int>(kUnits, 1));
  EXPECT_EQ(table.finished(), kUnits);
  EXPECT_EQ(table.next(0), cluster::UnitRange{});
}

TEST(LeaseTable, UnitFinishedTwiceCountsOnce) {
  LeaseTable table({.total = 100, .workers = 1});
  const cluster::UnitRange range = table.next(7);
  ASSERT_GT(range.count, 2u);
  table.finish({range.first + 1, 1});
  table.finish(range);
  table.finish(range);
  EXPECT_EQ(table.finished(), range.count);
  table.give_back(7);
  EXPECT_EQ(table.next(7).first, range.count);
  EXPECT_FAILS(table.finish({99, 2}), InvalidArgument, "99+2", "100");
  EXPECT_FAILS(table.finish({5, 0}), InvalidArgument, "5+0");
  EXPECT_FAILS(table.finish({~std::uint64_t{0}, 2}), InvalidArgument, "there are 100");
}

TEST(LeaseTable, RestoredTableLosesNothing) {
  LeaseTable first({.total = 100, .workers = 2});
  const cluster::UnitRange a = first.next(1);
  const cluster::UnitRange b = first.next(2);
  first.finish({a.first, 1});
  LeaseTable second({.total = 100, .workers = 2}, first.memory());
  EXPECT_EQ(second.finished(), 1u);
  second.finish({b.first, b.count});  // by somebody who held it all the time
  const cluster::UnitRange later{b.first + b.count + 3, 1};
  second.finish(later);  // leased after the table was written down
  std::uint64_t units = 0;
  for (cluster::UnitRange range = second.next(1); range.count > 0; range = second.next(1)) {
    units += range.count;
    second.finish(range);
  }
  EXPECT_EQ(units, 100 - 1 - b.count - 1);
  EXPECT_TRUE(second.over());
}

TEST(LeaseTable, RefusesAnInvalidSavedState) {
  const LeasePlan plan{.total = 100, .workers = 2};
  EXPECT_FAILS(LeaseTable(plan, {.end = 101, .next = 5}), Corrupt, "101");
  EXPECT_FAILS(LeaseTable(plan, {.end = 10, .next = 11}), Corrupt, "11");
  EXPECT_FAILS(LeaseTable(plan, {.end = 100, .next = 11, .open = {{10, 2}}}), Corrupt, "10+2");
  EXPECT_FAILS(LeaseTable(plan, {.end = 100, .next = 11, .open = {{3, 0}}}), Corrupt, "3+0");
  EXPECT_FAILS(LeaseTable(plan, {.end = 100, .next = 4, .open = {{0, 3}, {1, 3}}}), Corrupt, "1+3");
}

TEST(LeaseTable, PausesWhenExactlyAMultipleIsFinished) {
  LeaseTable table({.total = 50, .workers = 2, .pause_every = 20});
  std::vector<std::uint64_t> pauses;
  while (!table.over()) {
    const cluster::UnitRange range = table.next(1);
    if (range.count == 0) {
      ASSERT_TRUE(table.paused());
      pauses.push_back(table.finished());
      table.pass(table.finished() + 1);  // another one: means nothing
      ASSERT_TRUE(table.paused());
      table.pass(table.finished());
      continue;
    }
    EXPECT_FALSE(table.paused());
    table.finish(range);
  }
  EXPECT_EQ(pauses, (std::vector<std::uint64_t>{20, 40}));
}

TEST(LeaseTable, GoesBackToACheckpoint) {
  LeaseTable table({.total = 50, .workers = 2, .pause_every = 20});
  for (int i = 0; i < 6; ++i) table.finish(table.next(1));
  table.next(2);
  table.rewind(20);
  EXPECT_EQ(table.finished(), 20u);
  EXPECT_FALSE(table.paused());
  EXPECT_EQ(table.next(1).first, 20u);
  EXPECT_FAILS(table.rewind(51), InvalidArgument, "51");
}

TEST(LeaseTable, StopsAtAWholeStep) {
  LeaseTable table({.total = 1000, .workers = 2});
  const cluster::UnitRange lost = table.next(1);
  table.finish(table.next(2));
  table.give_back(1);
  table.stop_early(7);
  while (!table.over()) {
    const cluster::UnitRange range = table.next(2);
    ASSERT_GT(range.count, 0u);
    table.finish(range);
  }
  EXPECT_EQ(table.finished(), (2 * lost.count + 6) / 7 * 7);
  EXPECT_EQ(table.next(2), cluster::UnitRange{});
}

TEST(LeaseTable, ReturnedUnitsAreLeasedFirst) {
  LeaseTable table({.total = 100, .workers = 2});
  const cluster::UnitRange lost = table.next(0);
  table.next(1);
  table.give_back(0);
  EXPECT_EQ(table.next(1), lost);
}

TEST(LeaseTable, WhatAWorkerDoesNotHoldIsLeasedAgain) {
  LeaseTable table({.total = 100, .workers = 2});
  const cluster::UnitRange kept = table.next(1);
  const cluster::UnitRange lost = table.next(1);
  const cluster::UnitRange others = table.next(2);
  table.keep_only(1, {kept});
  EXPECT_EQ(table.next(2), lost);
  table.keep_only(2, {others, lost});
  table.keep_only(3, {});
  EXPECT_EQ(table.next(1).first, others.first + others.count) << "everybody holds what was leased to him";
}

TEST(LeaseTable, UnitsBeyondAPauseSayThatItHasEnded) {
  const LeasePlan plan{.total = 100, .workers = 1, .pause_every = 10};
  LeaseTable outdated(plan, {.end = 100, .next = 10, .passed = 0, .open = {}});
  EXPECT_TRUE(outdated.paused());
  outdated.finish({10, 2});  // leased by a table that knew of the checkpoint
  EXPECT_FALSE(outdated.paused());
  EXPECT_EQ(outdated.next(1).first, 12u) << "work goes on up to the next pause";
}

TEST(LeaseTable, EmptyPlanIsOver) { EXPECT_TRUE(LeaseTable(LeasePlan{}).over()); }

TEST(LeaseTable, PausesOnceMoreWhenAskedTo) {
  LeaseTable table({.total = 1000, .workers = 1});
  const cluster::UnitRange first = table.next(1);
  table.pause_soon(10);
  std::vector<cluster::UnitRange> leased{first};
  for (cluster::UnitRange range = table.next(1); range.count > 0; range = table.next(1)) leased.push_back(range);
  for (const cluster::UnitRange& range : leased) table.finish(range);
  EXPECT_EQ(table.finished(), (first.count + 9) / 10 * 10);
  EXPECT_TRUE(table.paused());
  table.skip_pause();
  EXPECT_TRUE(table.paused()) << "it is never too soon for what somebody asked for";
  table.pass(table.finished());
  EXPECT_FALSE(table.paused());
  EXPECT_GT(table.next(1).count, 0u);
}

}  // namespace
}  // namespace trireme::master
