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
  LeaseTable book({.total = kUnits, .workers = 4});
  std::vector<int> finished(kUnits, 0);
  std::vector<std::vector<cluster::UnitRange>> held(4);
  while (!book.over()) {
    const auto worker = static_cast<Rank>(random.below(4));
    auto& mine = held[worker];
    switch (random.below(8)) {
      case 0:  // dies
        book.give_back(worker);
        mine.clear();
        break;
      case 1:
      case 2:
      case 3:
        if (const cluster::UnitRange range = book.next(worker); range.count > 0) mine.push_back(range);
        break;
      default:
        if (mine.empty()) break;
        const cluster::UnitRange part{mine.back().first, 1 + random.below(mine.back().count)};
        book.finish(part);
        for (std::uint64_t unit = part.first; unit < part.first + part.count; ++unit) ++finished[unit];
        mine.back() = {part.first + part.count, mine.back().count - part.count};
        if (mine.back().count == 0) mine.pop_back();
    }
  }
  EXPECT_EQ(finished, std::vector<int>(kUnits, 1));
  EXPECT_EQ(book.finished(), kUnits);
  EXPECT_EQ(book.next(0), cluster::UnitRange{});
}

TEST(LeaseTable, UnitFinishedTwiceCountsOnce) {
  LeaseTable book({.total = 100, .workers = 1});
  const cluster::UnitRange range = book.next(7);
  ASSERT_GT(range.count, 2u);
  book.finish({range.first + 1, 1});
  book.finish(range);
  book.finish(range);
  EXPECT_EQ(book.finished(), range.count);
  book.give_back(7);
  EXPECT_EQ(book.next(7).first, range.count);
  EXPECT_FAILS(book.finish({99, 2}), InvalidArgument, "99+2", "100");
  EXPECT_FAILS(book.finish({5, 0}), InvalidArgument, "5+0");
  EXPECT_FAILS(book.finish({~std::uint64_t{0}, 2}), InvalidArgument, "there are 100");
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
  LeaseTable book({.total = 50, .workers = 2, .pause_every = 20});
  std::vector<std::uint64_t> pauses;
  while (!book.over()) {
    const cluster::UnitRange range = book.next(1);
    if (range.count == 0) {
      ASSERT_TRUE(book.paused());
      pauses.push_back(book.finished());
      book.pass(book.finished() + 1);  // another one: means nothing
      ASSERT_TRUE(book.paused());
      book.pass(book.finished());
      continue;
    }
    EXPECT_FALSE(book.paused());
    book.finish(range);
  }
  EXPECT_EQ(pauses, (std::vector<std::uint64_t>{20, 40}));
}

TEST(LeaseTable, GoesBackToACheckpoint) {
  LeaseTable book({.total = 50, .workers = 2, .pause_every = 20});
  for (int i = 0; i < 6; ++i) book.finish(book.next(1));
  book.next(2);
  book.rewind(20);
  EXPECT_EQ(book.finished(), 20u);
  EXPECT_FALSE(book.paused());
  EXPECT_EQ(book.next(1).first, 20u);
  EXPECT_FAILS(book.rewind(51), InvalidArgument, "51");
}

TEST(LeaseTable, StopsAtAWholeStep) {
  LeaseTable book({.total = 1000, .workers = 2});
  const cluster::UnitRange lost = book.next(1);
  book.finish(book.next(2));
  book.give_back(1);
  book.stop_early(7);
  while (!book.over()) {
    const cluster::UnitRange range = book.next(2);
    ASSERT_GT(range.count, 0u);
    book.finish(range);
  }
  EXPECT_EQ(book.finished(), (2 * lost.count + 6) / 7 * 7);
  EXPECT_EQ(book.next(2), cluster::UnitRange{});
}

TEST(LeaseTable, ReturnedUnitsAreLeasedFirst) {
  LeaseTable book({.total = 100, .workers = 2});
  const cluster::UnitRange lost = book.next(0);
  book.next(1);
  book.give_back(0);
  EXPECT_EQ(book.next(1), lost);
}

TEST(LeaseTable, WhatAWorkerDoesNotHoldIsLeasedAgain) {
  LeaseTable book({.total = 100, .workers = 2});
  const cluster::UnitRange kept = book.next(1);
  const cluster::UnitRange lost = book.next(1);
  const cluster::UnitRange others = book.next(2);
  book.keep_only(1, {kept});
  EXPECT_EQ(book.next(2), lost);
  book.keep_only(2, {others, lost});
  book.keep_only(3, {});
  EXPECT_EQ(book.next(1).first, others.first + others.count) << "everybody holds what was leased to him";
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
  LeaseTable book({.total = 1000, .workers = 1});
  const cluster::UnitRange first = book.next(1);
  book.pause_soon(10);
  std::vector<cluster::UnitRange> leased{first};
  for (cluster::UnitRange range = book.next(1); range.count > 0; range = book.next(1)) leased.push_back(range);
  for (const cluster::UnitRange& range : leased) book.finish(range);
  EXPECT_EQ(book.finished(), (first.count + 9) / 10 * 10);
  EXPECT_TRUE(book.paused());
  book.skip_pause();
  EXPECT_TRUE(book.paused()) << "it is never too soon for what somebody asked for";
  book.pass(book.finished());
  EXPECT_FALSE(book.paused());
  EXPECT_GT(book.next(1).count, 0u);
}

}  // namespace
}  // namespace trireme::master
