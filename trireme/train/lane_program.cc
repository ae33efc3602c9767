#include "trireme/train/lane_program.h"

#include "trireme/base/error.h"
#include "trireme/base/lanes.h"

namespace trireme {
namespace {

void emit(Lane first, Lane count, std::size_t level, std::vector<LaneMove>& moves) {
  if (count == 1) {
    moves.push_back({LaneMove::Kind::kCompute, first, level});
    return;
  }
  const Lane left = left_lanes(count);
  emit(first, left, level, moves);
  emit(first + left, count - left, level + 1, moves);
  moves.push_back({LaneMove::Kind::kAdd, 0, level + 1});
}

}  // namespace

std::vector<LaneMove> lane_program(Lane lanes) {
  TRIREME_CHECK(lanes > 0);
  std::vector<LaneMove> moves;
  emit(0, lanes, 0, moves);
  return moves;
}

}  // namespace trireme
