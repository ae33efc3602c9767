#pragma once

#include <vector>

#include "trireme/types.h"

namespace trireme {

/// One move in the summation of a worker's lanes. Buffers are numbered levels: level 0 is the one that is sent.
struct SumStep {
  enum class Kind {
    kCompute,  ///< gradient of `lane` into buffer `level`
    kAdd,      ///< buffer `level - 1` += buffer `level`
  };
  Kind kind = Kind::kCompute;
  Lane lane = 0;  ///< counted from the worker's first lane
  std::size_t level = 0;

  bool operator==(const SumStep&) const = default;
};

/// How a worker sums `lanes` lanes along the summation tree (base/numbers/lanes.h) with as few buffers as the tree is
/// deep: left child into a buffer, right child into the next one, add. All moves after the last kCompute are adds:
/// these can be done parameter by parameter while backward still runs.
std::vector<SumStep> summation_schedule(Lane lanes);

/// The same, lane by lane: the gradient of a lane goes into buffer `level`; then, for each of `adds` in this order,
/// buffer `adds[i] - 1` += buffer `adds[i]`.
struct LaneSum {
  std::size_t level = 0;
  std::vector<std::size_t> adds = {};
};
std::vector<LaneSum> summation_by_lane(Lane lanes);

}  // namespace trireme
