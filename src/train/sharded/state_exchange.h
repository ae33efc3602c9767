#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "elastic/transfers.h"
#include "train/sharded/commit_vote.h"
#include "train/sharded/sharded_parameters.h"
#include "train/sharded/tensor_table.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// Where the state of a view comes from.
struct StateOrigin {
  enum class Kind : std::uint8_t { kInitial, kWorkers, kCheckpoint };

  Kind kind = Kind::kInitial;
  Step version = 0;
  Step updates = 0;
};

/// What a rank has of the state: parameters of which it owns a part, and tensors that it has whole: buffers, frozen
/// parameters ("buffer/...", "model/...").
struct StatePart {
  ShardedParameters* parameters = nullptr;  ///< null: none
  std::vector<NamedParameter> others = {};
};

/// Fills the state of a new view: from whoever held it in the view before; where nobody does, or nobody has any state,
/// from the newest checkpoint, which the chief reads; else with initial values. One use. A collective object: all
/// ranks make it, and call the same.
class StateExchange {
 public:
  /// `next` is to be filled; its parameters are not null. `made_everywhere`: each rank has the initial values of its
  /// part, because they do not depend on who made them; else the chief, which has all of it, gives them. Throws
  /// InvalidArgument, on all ranks, if two say different things of a tensor, or there are no parameters.
  StateExchange(collective::Communicator& ranks, StatePart next, bool made_everywhere);

  /// `held` is what this rank has of the state that is continued; empty if it is not one of the holders. Throws
  /// PeerLost, Timeout; on the chief InvalidArgument if the checkpoint does not fit, IoError, and Error if part of the
  /// state is lost and there is no checkpoint.
  StateOrigin run(const CommitDecision& decision, const StatePart& held, const Restore& restore);

  /// After `run`, which fills the parameters alone: makes what has arrived for the others what they are. Until then
  /// they, which may be those that are held, have not changed.
  void put_others();

  // Later in the view, of what was filled.

  /// What this rank writes of a checkpoint: each byte is written by one of those that have it. `parameters` and
  /// `others` are what was filled; valid as long as they do not change.
  ShardedState to_write(ShardedParameters& parameters, const std::vector<NamedParameter>& others) const;

  /// Brings the parameters as they are shown, and the others, to the chief, into the module of `whole`, which is looked
  /// at only there. A collective call.
  void collect(ShardedParameters& parameters, const std::vector<NamedParameter>& others, const Model& whole) const;

 private:
  using Source = std::function<void(const StateRange& range, MutableBytes to)>;

  StateOrigin open_checkpoint(const CommitDecision& decision, const std::string& lost, const Restore& restore);
  void check_checkpoint() const;
  void move_parameters(const TransferPlan& plan, std::size_t array, const StatePart& held, StateOrigin::Kind kind);
  void move_others(const TransferPlan& plan, const StatePart& held, StateOrigin::Kind kind);

  collective::Communicator& ranks_;
  const StatePart next_;
  const bool made_everywhere_;
  const TensorTable parameters_;
  const TensorTable others_;
  std::vector<StateRanges> needs_, others_needs_;          // by rank: who has what of them in this view
  std::optional<OpenedState> opened_;                      // the checkpoint, on the chief
  std::map<std::uint32_t, torch::Tensor> others_arrived_;  // by place in the table, on the host
};

}  // namespace trireme
