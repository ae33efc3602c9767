#include "trireme/cluster/lease_book.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/random.h"

#include "tests/support/expect_fails.h"

namespace trireme::cluster {
namespace {

TEST(LeaseSize, LargeAtFirstOneAtTheEnd) {
  EXPECT_EQ(lease_size(1'000'000, 4), 16u);
  EXPECT_EQ(lease_size(8 * 4 * 5, 4), 5u);
  EXPECT_EQ(lease_size(3, 4), 1u);
  EXPECT_EQ(lease_size(0, 4), 1u);
  EXPECT_EQ(lease_size(100, 0), 12u);
}

TEST(LeaseBook, EveryUnitIsFinishedOnceWhateverHappens) {
  constexpr std::uint64_t kUnits = 1000;
  RandomStream random(3);
  LeaseBook book(kUnits, 4);
  std::vector<int> finished(kUnits, 0);
  std::vector<std::vector<UnitRange>> held(4);
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
        if (const UnitRange range = book.next(worker); range.count > 0) mine.push_back(range);
        break;
      default:
        if (mine.empty()) break;
        const UnitRange part{mine.back().first, 1 + random.below(mine.back().count)};
        book.finish(worker, part);
        for (std::uint64_t unit = part.first; unit < part.first + part.count; ++unit) ++finished[unit];
        mine.back() = {part.first + part.count, mine.back().count - part.count};
        if (mine.back().count == 0) mine.pop_back();
    }
  }
  EXPECT_EQ(finished, std::vector<int>(kUnits, 1));
  EXPECT_EQ(book.finished(), kUnits);
  EXPECT_EQ(book.next(0), UnitRange{});
}

TEST(LeaseBook, OnlyWhatIsHeldCanBeFinished) {
  LeaseBook book(100, 1);
  const UnitRange range = book.next(0);
  ASSERT_GT(range.count, 2u);
  EXPECT_FAILS(book.finish(1, range), InvalidArgument, "worker 1", "does not hold");
  EXPECT_FAILS(book.finish(0, {range.first, range.count + 1}), InvalidArgument, "does not hold");
  EXPECT_FAILS(book.finish(0, {range.first, 0}), InvalidArgument, "does not hold");
  EXPECT_FAILS(book.finish(0, {range.first + 1, 1}), InvalidArgument, "does not hold");
  book.finish(0, range);
  EXPECT_FAILS(book.finish(0, range), InvalidArgument, "does not hold");
}

TEST(LeaseBook, WhatWasGivenBackComesFirst) {
  LeaseBook book(100, 2);
  const UnitRange lost = book.next(0);
  book.next(1);
  book.give_back(0);
  EXPECT_EQ(book.next(1), lost);
}

TEST(LeaseBook, NothingToDoIsOver) { EXPECT_TRUE(LeaseBook(0, 2).over()); }

}  // namespace
}  // namespace trireme::cluster
