#include "base/wait_board.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(WaitBoard, ShowsWhatHasLastedLongest) {
  WaitBoard board;
  EXPECT_FALSE(board.longest());
  std::optional<WaitBoard::Entry> first(std::in_place, &board,
                                        [] { return AwaitedWork{.what = "a pull", .servers = {1}}; });
  const WaitBoard::Entry second(&board, [] { return AwaitedWork{.what = "all_reduce"}; });
  EXPECT_EQ(board.longest()->what, "a pull");
  EXPECT_EQ(board.longest()->servers, std::vector<Rank>{1});
  EXPECT_GE(board.longest()->for_s, 0);
  first.reset();
  EXPECT_EQ(board.longest()->what, "all_reduce");
}

TEST(WaitBoard, WithoutABoardNothingIsShown) {
  const WaitBoard::Entry entry(nullptr, [] { return AwaitedWork{}; });
}

}  // namespace
}  // namespace trireme
