#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trireme/model.h"
#include "trireme/types.h"

#include "checkpoint/writer.h"

namespace trireme {

/// How far a worker has got.
struct Position {
  bool fresh = true;    ///< it has nothing but initial values
  Step version = 0;     ///< steps; some of them without samples
  Step updates = 0;     ///< steps that changed something: what the rule counts
  bool settled = true;  ///< workers that have got as far hold the same state
};

/// The part of a divided state that one worker writes.
struct ShardedState {
  std::vector<checkpoint::TensorInfo> tensors;  ///< all that are divided, whoever has what of them
  std::vector<checkpoint::Piece> pieces;        ///< what this worker writes of them: each byte is written by one
  std::vector<torch::Tensor> kept = {};         ///< that pieces lie in
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
  std::optional<ShardedState> sharded = {};  ///< beside `tensors`: what each worker holds a part of
};

}  // namespace trireme
