#include "elastic/summation_schedule.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/numbers/lanes.h"

namespace trireme {
namespace {

using Kind = SumStep::Kind;

/// The sum that the tree over lanes [first, first + count) stands for, as a formula.
std::string tree(Lane first, Lane count) {
  if (count == 1) return std::to_string(first);
  const Lane left = left_lanes(count);
  return "(" + tree(first, left) + "+" + tree(first + left, count - left) + ")";
}

/// What buffer 0 holds after all moves, as a formula; adding an empty buffer or overwriting a full one fails.
std::string carry_out(const std::vector<SumStep>& moves) {
  std::map<std::size_t, std::string> buffers;
  for (const SumStep& move : moves) {
    if (move.kind == Kind::kCompute) {
      EXPECT_TRUE(buffers[move.level].empty()) << "buffer " << move.level << " still holds " << buffers[move.level];
      buffers[move.level] = std::to_string(move.lane);
    } else {
      EXPECT_FALSE(buffers[move.level - 1].empty() || buffers[move.level].empty());
      buffers[move.level - 1] = "(" + buffers[move.level - 1] + "+" + buffers[move.level] + ")";
      buffers[move.level].clear();
    }
  }
  return buffers[0];
}

TEST(SummationSchedule, OneLaneIsComputedStraightIntoTheBufferThatIsSent) {
  EXPECT_EQ(summation_schedule(1), (std::vector<SumStep>{{Kind::kCompute, 0, 0}}));
}

TEST(SummationSchedule, FourLanesAreTwoPairs) {
  EXPECT_EQ(summation_schedule(4), (std::vector<SumStep>{{Kind::kCompute, 0, 0},
                                                         {Kind::kCompute, 1, 1},
                                                         {Kind::kAdd, 0, 1},
                                                         {Kind::kCompute, 2, 1},
                                                         {Kind::kCompute, 3, 2},
                                                         {Kind::kAdd, 0, 2},
                                                         {Kind::kAdd, 0, 1}}));
}

TEST(SummationSchedule, SumsAlongTheTreeForAnyNumberOfLanes) {
  for (Lane lanes = 1; lanes <= 40; ++lanes) EXPECT_EQ(carry_out(summation_schedule(lanes)), tree(0, lanes));
}

TEST(SummationSchedule, NeedsNoMoreBuffersThanTheTreeIsDeep) {
  for (Lane lanes = 1; lanes <= 40; ++lanes) {
    std::size_t highest = 0;
    for (const SumStep& move : summation_schedule(lanes)) highest = std::max(highest, move.level);
    EXPECT_LE(highest, std::bit_width(lanes - 1u)) << lanes << " lanes";
  }
}

}  // namespace
}  // namespace trireme
