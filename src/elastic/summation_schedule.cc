#include "elastic/summation_schedule.h"

#include "base/error.h"
#include "base/numbers/lanes.h"

namespace trireme {
namespace {

void emit(Lane first, Lane count, std::size_t level, std::vector<SumStep>& moves) {
  if (count == 1) {
    moves.push_back({SumStep::Kind::kCompute, first, level});
    return;
  }
  const Lane left = left_lanes(count);
  emit(first, left, level, moves);
  emit(first + left, count - left, level + 1, moves);
  moves.push_back({SumStep::Kind::kAdd, 0, level + 1});
}

}  // namespace

std::vector<SumStep> summation_schedule(Lane lanes) {
  TRIREME_CHECK(lanes > 0);
  std::vector<SumStep> moves;
  emit(0, lanes, 0, moves);
  return moves;
}

std::vector<LaneSum> summation_by_lane(Lane lanes) {
  std::vector<LaneSum> sums;
  for (const SumStep& move : summation_schedule(lanes)) {
    if (move.kind == SumStep::Kind::kCompute) {
      sums.push_back({.level = move.level});
    } else {
      sums.back().adds.push_back(move.level);
    }
  }
  return sums;
}

}  // namespace trireme
