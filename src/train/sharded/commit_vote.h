#pragma once

#include <vector>

#include "base/numbers/exact_sum.h"
#include "collective/communicator.h"
#include "elastic/training_state.h"
#include "optim/update_config.h"

namespace trireme {

// How workers that each hold a part of the state make a step together, or not at all.

/// What a worker says when it has all sums of its part of a step.
struct CommitVote {
  double samples = 0;  ///< in its lanes
  bool stop = false;
  bool regroup = false;
  bool finite = true;  ///< its part of the gradient; looked at where the loss scale adapts
  ExactSum squares;    ///< of its part of the gradient; of none where nothing is clipped
};

/// All of them together: the samples of all, and so on.
CommitVote gather_votes(collective::Communicator& ranks, const CommitVote& own, bool with_squares);

/// What an update needs to be made, beside the sums: whoever was left behind gets it from one who made it.
struct CommitInput {
  Step version = 0;  ///< after it
  Step updates = 0;  ///< likewise
  double lr = 0;
  double gradient_scale = 0;  ///< 0: the parameters stay as they were
  bool left_out = false;      ///< because the gradient was not finite; else because the step had no samples

  bool updates_parameters() const { return gradient_scale != 0; }
};

/// Where a worker is when workers meet in a view.
struct CommitPosition {
  Position at;
  bool prepared = false;  ///< it has all sums of the next step
  CommitInput last;       ///< the last it made; of version 0 if none
};

/// What all do about it. Pure: `positions` are all workers', by rank.
struct CommitDecision {
  bool fresh = false;  ///< nobody has any state
  Step version = 0;    ///< of the state that is continued
  Step updates = 0;
  std::vector<Rank> holders;  ///< who has it, after those who are prepared have made the step
  CommitInput finish;         ///< with which those make it; of version 0: nobody has to
};
CommitDecision decide_commit(const std::vector<CommitPosition>& positions);

/// Everybody's position, by rank. A collective call.
std::vector<CommitPosition> gather_positions(collective::Communicator& ranks, const CommitPosition& own);

}  // namespace trireme
