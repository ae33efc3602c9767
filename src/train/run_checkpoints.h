#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trireme/trainer.h"

#include "base/spans.h"
#include "cluster/protocol.h"
#include "elastic/job_checkpoints.h"
#include "job/job_session.h"
#include "train/strategy/strategy.h"

namespace trireme {

/// The checkpoints of a training: when one is due, what is in it, and what the run goes on from. Does nothing where the
/// run has no folder, or wants no checkpoints. Used by the training thread.
class RunCheckpoints {
 public:
  /// `samples` is the size of the training set; `spans` may be null. All that is referred to outlives this object.
  RunCheckpoints(JobSession& job, const Model& model, const TrainOptions& options, const cluster::Plan& plan,
                 std::uint64_t samples, SpanRecorder* spans);

  /// Returns after how many steps one is due: the epoch's, unless the options say; 0 = never.
  Step every() const { return files_.every(); }

  /// Saves if one became due after step `before`, up to step `now`; where work is leased, the master says when instead.
  /// With backup workers the others may have gone on meanwhile. Throws as `save`.
  void save_if_due(Strategy& strategy, Step before, Step now);

  /// Copies this worker's part of a checkpoint of `step`, and writes it in the background. Left out, with a line in the
  /// log, if the one before is still being written. Throws as Strategy::state.
  void save(Strategy& strategy, Step step);

  /// The same at the end of the run, but waits for the one before, and for this one. Throws PeerLost if somebody's part
  /// may never come.
  void save_last(Strategy& strategy, Step step);

  /// Saves what training begins with, where a worker may take a part of it with it; there is nothing else to go back
  /// to. Waits until it is on disk. Nothing if there is one already.
  void save_first(Strategy& strategy);

  /// The same because somebody asked for it, at the beginning of a view, with which all workers of it are. Waits for
  /// the one before.
  void save_as_asked(Strategy& strategy, Step step);

  /// The view is over: gives up a write whose other writers may be gone.
  void abandon() { files_.abandon(); }

  /// The evaluation of the present parameters: a checkpoint of them carries it, and the best are kept.
  void scored(double score) { score_ = score; }

  /// The parameters are about to change.
  void not_scored() { score_.reset(); }

  /// On the chief, for a strategy in which nobody has any state: fills `state` from the newest sound checkpoint, takes
  /// leases and metrics back to it, and returns where it was made; or, if there is none and training begins
  /// (`initial`), from the model that the options name; else nullopt. What only servers hold is saved before the first
  /// step: they may die before there is another. Throws InvalidArgument if the checkpoint is of another run, or that
  /// model does not fit, and as StateFiles::restore.
  std::optional<Position> restore(const std::vector<NamedParameter>& state, bool initial);

  /// The same for a state that no worker has all of: opens that checkpoint. A model that the options name is loaded
  /// into the chief's module.
  std::optional<OpenedState> open(bool initial);

 private:
  void load_init(const std::vector<NamedParameter>& state) const;
  nlohmann::json describe_run() const;

  JobSession& job_;
  const Model& model_;
  const TrainOptions& options_;
  const cluster::Plan& plan_;
  const std::uint64_t samples_;
  SpanRecorder* const spans_;
  JobCheckpoints files_;
  std::optional<double> score_;  // of the present parameters; the chief's
};

}  // namespace trireme
