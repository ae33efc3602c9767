#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model.h"
#include "trireme/types.h"

namespace trireme {

/// How far a worker has got.
struct Position {
  bool fresh = true;    ///< it has nothing but initial values
  Step version = 0;     ///< steps; some of them without samples
  Step updates = 0;     ///< steps that changed something: what the rule counts
  bool settled = true;  ///< workers that have got as far hold the same state
};

/// All that training has made so far, by name, not copied: "model/…", "optimizer/…", "buffer/…".
struct TrainingState {
  Position at;
  std::vector<NamedParameter> tensors;
  bool same_everywhere = true;  ///< all workers hold the same bits: each can save a share of them
  /// What others than workers hold (here only names, shapes and types count), and how many parts of this checkpoint
  /// they have begun to write it to.
  std::vector<NamedParameter> elsewhere = {};
  std::uint32_t other_parts = 0;
};

}  // namespace trireme
